"""The built-in agent's git: `tool` runs a call, `subcommands` has what a model may say, `repository` what a repository
may be, and `process` what git is told with every run."""
