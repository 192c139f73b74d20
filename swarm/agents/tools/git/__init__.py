"""The built-in agent's git: `tool` runs a call, `subcommands` has the allowed arguments, `repository` the allowed
repositories, and `process` git's environment and configuration.
"""
