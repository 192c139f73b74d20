"""``python -m swarm`` opens the chat, ``python -m swarm slack`` starts the Slack side, the rest is `swarm`."""

import sys

from swarm.cli.main import main

_WHOLE_HELP = ("--help", "-h", "--version")


def command(arguments: list[str]) -> list[str]:
    """The arguments of `swarm` that these ones stand for."""
    if arguments in (["slack"], ["--slack"]):
        return ["up"]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in _WHOLE_HELP):
        return ["chat", *arguments]
    return arguments


if __name__ == "__main__":
    sys.argv[1:] = command(sys.argv[1:])
    main()
