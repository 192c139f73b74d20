"""Tools that the coordinator provides to its built-in agents."""
