"""``python -m slack_twin.run app.py``: a twin, and an unmodified Python app that uses it instead of Slack.

The app finds tokens, signing secret and address in the variables that most apps read, and `redirect/` makes the clients
of slack_sdk call the twin, in the app's process and in those that it starts.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slack_twin.__main__ import _parser, _seed
from slack_twin.access import Access
from slack_twin.manifest import credentials
from slack_twin.seed import DEFAULT, Seed, SeedApp
from slack_twin.server import environment, run, running
from slack_twin.settings import read_settings
from slack_twin.twin import build_twin

_PATIENCE_SECONDS = 10.0
_REDIRECT = str(Path(__file__).parent / "redirect")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the app until it ends, or until Ctrl-C or SIGTERM, which are passed on to it.

    Returns the app's exit code (128 and the signal's number if a signal ended it), 1 if the twin cannot start, 2 for
    wrong options.
    """
    parser = _parser()
    parser.prog, parser.epilog = "python -m slack_twin.run", None
    parser.description = "Run a Python app on a local Slack workspace. The app is not changed: SLACK_BOT_TOKEN, "
    parser.description += "SLACK_APP_TOKEN and SLACK_SIGNING_SECRET are set, and slack_sdk calls the workspace."
    parser.add_argument("--request-url", metavar="URL", help="where the app listens, if it does not use Socket Mode")
    parser.add_argument("app", help="the app's Python file, followed by its own arguments")
    parser.add_argument("arguments", nargs="...", help="the app's arguments")
    options = parser.parse_args(arguments)
    if not Path(options.app).is_file():
        parser.error(f"no file {options.app}")
    codes: list[int] = []
    try:
        seed = _of_app(_seed(options.manifest), Path(options.app).stem, options.request_url)
        settings = read_settings(os.environ | ({"TWIN_RATES": options.rates} if options.rates else {}))
        twin = build_twin(seed=seed, settings=settings)
        allowed = Access(bound_to=options.host, hosts=options.allow_host, origins=options.allow_origin)

        async def both() -> None:
            async with running(twin, options.host, options.port, allowed=allowed) as base_url:
                sys.stdout.write(f"Open {base_url}\n")
                sys.stdout.flush()
                lines = (line.removeprefix("export ").partition("=") for line in environment(twin, base_url))
                codes.append(await _app([options.app, *options.arguments], {name: value for name, _, value in lines}))

        run(both())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{parser.prog}: {error}; choose other options\n")
        return 1
    return codes[0]


def _of_app(seed: Seed, name: str, request_url: str | None) -> Seed:
    """Returns the seed with the app that runs: the first of the manifests, or one that is named after the file."""
    first, *others = seed.apps
    if seed is DEFAULT:
        first = SeedApp(name=name, **credentials(name))
    return replace(seed, apps=(replace(first, request_url=request_url or first.request_url), *others))


async def _app(command: Sequence[str], variables: dict[str, str]) -> int:
    """Runs the app, passes signals on to it, and returns its exit code."""
    path = os.pathsep.join(filter(None, (_REDIRECT, os.environ.get("PYTHONPATH"))))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=os.environ | variables | {"PYTHONPATH": path}, start_new_session=True
    )
    ending: list[asyncio.Task[None]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _begin, ending, process, number)
    code = await process.wait()
    return code if code >= 0 else 128 - code


def _begin(ending: list[asyncio.Task[None]], process: Process, number: int) -> None:
    ending.append(asyncio.create_task(_end(process, number)))


async def _end(process: Process, number: int) -> None:
    """Passes a signal on, and kills an app that still runs after ten seconds."""
    process.send_signal(number)
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_SECONDS)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
