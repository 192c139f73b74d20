"""The command ``slack-twin``, also ``python -m slack_twin``: runs a twin until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn

from slack_twin.access import LOOPBACK
from slack_twin.manifest import seed_from_manifests
from slack_twin.seed import DEFAULT, Seed
from slack_twin.server import run, serve
from slack_twin.settings import read_settings

PORT = 8400
_LAST_PORT = 65_535


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one line on standard error and exits with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 after Ctrl-C or SIGTERM, 1 if the twin cannot start. Unknown options exit with 2."""
    options = _parser().parse_args(arguments)
    return run_twin(
        options.host,
        options.port,
        rates=options.rates,
        hosts=options.allow_host,
        origins=options.allow_origin,
        manifests=options.manifest,
    )


def run_twin(
    host: str,
    port: int,
    *,
    rates: str = "",
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    manifests: Sequence[str] = (),
    adapt: Callable[[Seed], Seed] = lambda seed: seed,
    beside: Callable[[Mapping[str, str]], Awaitable[None]] | None = None,
) -> int:
    """Serves a twin until Ctrl-C or SIGTERM, or while `beside` runs. `rates` overrides the variable `TWIN_RATES`.

    The apps of the files `manifests` replace the default app; `adapt` changes the seed.

    Returns 0, or 1 after one line on standard error if the address is unavailable or a setting is invalid.
    """
    try:
        if not 0 <= port <= _LAST_PORT:
            raise ValueError(f"the port must be from 0 to {_LAST_PORT}, not {port}")
        settings = read_settings(os.environ | ({"TWIN_RATES": rates} if rates else {}))
        seed = adapt(_seed(manifests))
        run(_until_signal(serve(host, port, settings=settings, hosts=hosts, origins=origins, seed=seed, beside=beside)))
    except OSError as error:
        why = error.strerror or error
        sys.stderr.write(f"slack-twin: cannot listen on {host}:{port} ({why}); choose another --host or --port\n")
        return 1
    except ValueError as error:
        sys.stderr.write(f"slack-twin: {error}\n")
        return 1
    return 0


def _seed(manifests: Sequence[str]) -> Seed:
    """Returns the seed of the manifests. Raises ValueError for an unreadable or invalid manifest."""
    try:
        return seed_from_manifests(manifests) if manifests else DEFAULT
    except OSError as error:
        raise ValueError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="slack-twin",
        description="Run a local Slack workspace: Slack's Web API, Socket Mode, signed HTTP delivery and a page. "
        "It prints the variables that connect an app (tokens, signing secret, base URL) and the address of the page.",
        epilog="The workspace is in memory and is lost when the command ends. Limits: TWIN_RETENTION_MESSAGES, "
        "TWIN_FILE_CAP_BYTES. TWIN_OWN_EVENTS=off sends apps no events about their own messages.",
    )
    parser.add_argument("--host", default=LOOPBACK, help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        default=os.environ.get("TWIN_PORT") or PORT,
        help=f"the port of the page, the control API (/twin/) and the Web API (/api/); 0 picks a free port "
        f"(default: TWIN_PORT or {PORT})",
    )
    parser.add_argument(
        "--rates",
        default="",
        metavar="on|off",
        help="enable or disable Slack's rate limits; off is for load tests (default: TWIN_RATES or on)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="an additional host name of the twin, such as twin.example.org; can be repeated",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="another web page that may call the twin, such as http://localhost:3000; can be repeated",
    )
    parser.add_argument(
        "--manifest",
        action="append",
        default=[],
        metavar="FILE",
        help="the manifest (JSON) of an app that replaces the default app; can be repeated",
    )
    return parser


async def _until_signal(serve_it: Coroutine[Any, Any, None]) -> None:
    serving = asyncio.create_task(serve_it)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    await asyncio.wait((serving,))
    if not serving.cancelled():
        serving.result()


if __name__ == "__main__":
    sys.exit(main())
