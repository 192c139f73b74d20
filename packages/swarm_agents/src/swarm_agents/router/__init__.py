"""The tool router: turns a sentence into one tool call, asks for missing arguments, or refuses."""
