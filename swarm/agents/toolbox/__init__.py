"""Tools that built-in agents call: what every tool is, how its calls are checked and limited."""
