"""Runs the command line: ``python -m swarm`` opens the chat, ``python -m swarm slack`` starts the Slack side, and other
arguments are passed to `swarm`.
"""

import sys

from swarm.cli.main import main

_WHOLE_HELP = ("--help", "-h", "--version")


def command(arguments: list[str]) -> list[str]:
    """Returns the arguments of `swarm` that correspond to these arguments."""
    if arguments in (["slack"], ["--slack"]):
        return ["up"]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in _WHOLE_HELP):
        return ["chat", *arguments]
    return arguments


if __name__ == "__main__":
    sys.argv[1:] = command(sys.argv[1:])
    main()
