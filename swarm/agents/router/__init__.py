"""The tool router: turns a sentence into one call of a tool, or asks, or refuses."""
