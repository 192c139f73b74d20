"""``python -m slack_twin.run app.py``: a twin, and an unmodified Python app that uses it instead of Slack.

The app finds tokens, signing secret and address in the variables that most apps read, and `redirect/` makes the clients
of slack_sdk call the twin, in the app's process and in those that it starts.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slack_twin.__main__ import _parser, run_twin
from slack_twin.manifest import credentials
from slack_twin.seed import DEFAULT, Seed, SeedApp

_PATIENCE_SECONDS = 10.0
_REDIRECT = str(Path(__file__).parent / "redirect")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the app until it ends, or until Ctrl-C or SIGTERM, which are passed on to it.

    Returns the app's exit code (128 and the signal's number if a signal ended it), or 1 if the twin cannot start.
    Wrong options exit with 2.
    """
    parser = _parser()
    parser.prog, parser.epilog = "python -m slack_twin.run", None
    parser.description = (
        "Run an unmodified Python app on a local Slack workspace: SLACK_BOT_TOKEN, SLACK_APP_TOKEN and "
        "SLACK_SIGNING_SECRET are set, and the clients of slack_sdk call the workspace."
    )
    parser.add_argument("--request-url", metavar="URL", help="where the app listens, if it does not use Socket Mode")
    parser.add_argument("app", help="the app's Python file")
    parser.add_argument("arguments", nargs="...", help="the app's own arguments")
    options = parser.parse_args(arguments)
    if not Path(options.app).is_file():
        parser.error(f"no file {options.app}")
    codes: list[int] = []

    async def beside(variables: Mapping[str, str]) -> None:
        codes.append(await _app([options.app, *options.arguments], variables))

    failed = run_twin(
        options.host,
        options.port,
        rates=options.rates,
        hosts=options.allow_host,
        origins=options.allow_origin,
        manifests=options.manifest,
        adapt=lambda seed: _of_app(seed, Path(options.app).stem, options.request_url),
        beside=beside,
    )
    return codes[0] if codes else failed


def _of_app(seed: Seed, name: str, request_url: str | None) -> Seed:
    """Returns the seed with the app that runs: the first of the manifests, or one that is named after the file."""
    first = SeedApp(name=name, **credentials(name)) if seed is DEFAULT else seed.apps[0]
    return replace(seed, apps=(replace(first, request_url=request_url or first.request_url), *seed.apps[1:]))


async def _app(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs the app, passes signals on to it, and returns its exit code."""
    path = os.pathsep.join(filter(None, (_REDIRECT, os.environ.get("PYTHONPATH"))))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env={**os.environ, **variables, "PYTHONPATH": path}, start_new_session=True
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _end, process, number)
    code = await process.wait()
    return code if code >= 0 else 128 - code


def _end(process: Process, number: int) -> None:
    """Passes a signal on; the second signal, or ten seconds, kill an app that still runs."""
    process.send_signal(number)
    loop = asyncio.get_running_loop()
    loop.call_later(_PATIENCE_SECONDS, os.killpg, process.pid, signal.SIGKILL)
    loop.add_signal_handler(number, os.killpg, process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
