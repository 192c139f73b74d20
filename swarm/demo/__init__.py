"""What ``make demo`` runs: the whole system on one machine, with agents that need no model."""
