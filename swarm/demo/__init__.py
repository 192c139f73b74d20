"""The processes of ``make demo``: the whole system on one machine, with agents that need no model."""
