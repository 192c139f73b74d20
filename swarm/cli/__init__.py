"""The command line: one module for each group of commands. Heavy imports stand inside the commands."""
