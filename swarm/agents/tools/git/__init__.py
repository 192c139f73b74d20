"""The built-in agent's git: the subcommands it may use, and how they are run."""
