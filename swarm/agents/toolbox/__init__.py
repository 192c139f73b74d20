"""Tools of built-in agents: their definition, and the checks and limits of their calls."""
