"""Tools of built-in agents: their definition, and the validation and limits of their calls."""
