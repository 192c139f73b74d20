"""The built-in agent's git tool.

`tool` runs a call, `subcommands` defines the allowed arguments, and `repository` defines the allowed repositories and
git's environment and configuration.
"""
