"""The built-in agent's git: `tool` runs a call, `subcommands` has the allowed arguments, and `repository` the
allowed repositories and git's environment and configuration.
"""
