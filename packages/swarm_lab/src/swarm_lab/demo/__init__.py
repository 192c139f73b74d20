"""The processes of ``make demo``: the complete system on one machine, with agents that need no model."""
