"""Tools that the coordinator gives to its built-in agents."""
