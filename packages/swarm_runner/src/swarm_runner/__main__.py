"""The command ``swarm-runner``: ``swarm run`` without the coordinator's package."""

from __future__ import annotations

import io
import sys

from swarm_base import loading
from swarm_base.errors import SwarmError, on_one_line

with loading.without("rich"):  # structlog would load it for tracebacks, which `log` writes without it
    import structlog  # noqa: F401

from cyclopts import App

from swarm_runner.cli import run

_USAGE = "Usage: swarm-runner NAME --provider PROVIDER [OPTIONS]"


def main() -> None:
    """Runs the command. Reports an error that the user can mend in one line, with exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    run.__doc__ = (run.__doc__ or "").replace("swarm run ", "swarm-runner ")
    app = App(name="swarm-runner", usage=_USAGE, version_flags=())
    app.default(run)
    try:
        app(result_action="return_value")
    except SwarmError as error:
        sys.exit(f"swarm-runner: {on_one_line(error.message, error.hint or '')}")
    except PermissionError as error:
        if error.filename is None:
            raise
        sys.exit(f"swarm-runner: {error.filename} cannot be used: {error.strerror}.")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
