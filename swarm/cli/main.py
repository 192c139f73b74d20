"""The command ``swarm``. `swarm.cli.commands` has all commands but `up`, which is started without the libraries of the
command line, so that a coordinator is ready sooner and smaller."""

from __future__ import annotations

import io
import sys

from swarm_base import loading

with loading.without("rich"):  # structlog would load it for tracebacks, which `log` writes without it
    import structlog

with loading.uncollected():
    from swarm.app import preflight
    from swarm.cli import NoServer, in_one_line
    from swarm.config import LogFormat, read, secrets
    from swarm.domain.errors import SwarmError
    from swarm_base import log

MAY_NOT = "Let your user read it and search its folders, or name another place (SWARM_HOME, SWARM_CONFIG)."


def up() -> None:
    """Run the coordinator. Needs SLACK_BOT_TOKEN and SLACK_APP_TOKEN (see `swarm slack manifest`)."""
    reading = read()
    settings = reading.settings
    preflight.check(settings)
    with loading.uncollected():
        from swarm.app import bootstrap  # loaded late, so that errors in the settings are reported first

    as_json = None if settings.log.format is LogFormat.AUTO else settings.log.format is LogFormat.JSON
    log.configure(settings.log.level, as_json=as_json, secrets=secrets(settings))
    for sentence in reading.elsewhere:
        structlog.get_logger(__name__).warning(sentence, action="configure")
    bootstrap.run(settings)


def main() -> None:
    """Runs a command. Reports an error that the user can fix in one line on standard error, with exit code 1."""
    _write_any_character()
    try:
        sys.exit(_run(sys.argv[1:]))
    except (SwarmError, NoServer) as error:
        print(f"swarm: {in_one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        from swarm import extensions

        if (package := (error.name or "").replace("_", "-")) not in extensions.PACKAGES:
            raise
        print(f"swarm: {in_one_line(extensions.missing('This command', package))}", file=sys.stderr)
        sys.exit(1)
    except PermissionError as error:
        if error.filename is None:
            raise
        print(f"swarm: {error.filename} cannot be used: {error.strerror}. {MAY_NOT}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _write_any_character() -> None:
    """Lets standard output and error show characters outside their encoding as escapes, such as \\u2705, in place of a
    UnicodeEncodeError in the middle of the output."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int | None:
    if arguments == ["up"]:
        up()
        return None
    from swarm.cli import commands

    return commands.run(arguments)


if __name__ == "__main__":
    main()
