"""The command line: one module for each group of commands. Heavy imports are made inside the commands."""
