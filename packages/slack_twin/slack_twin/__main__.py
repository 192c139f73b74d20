"""`python -m slack_twin --port 8400`: run the twin until Ctrl-C."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from slack_twin.manifest import seed_from_manifests
from slack_twin.seed import DEFAULT
from slack_twin.server import run, serve


def main() -> int:
    """0 after Ctrl-C or SIGTERM, 1 when the address cannot be taken or a setting makes no sense."""
    parser = argparse.ArgumentParser(prog="slack_twin", description="A local Slack workspace.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--allow-host", action="append", default=[], help="a further name of this machine")
    parser.add_argument("--allow-origin", action="append", default=[], help="another web page that may call the twin")
    parser.add_argument("--manifest", action="append", default=[], help="an app's manifest (JSON), in place of swarm")
    options = parser.parse_args()
    try:
        seed = seed_from_manifests(options.manifest) if options.manifest else DEFAULT
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        serving = serve(options.host, options.port, hosts=options.allow_host, origins=options.allow_origin, seed=seed)
        run(_until_signal(serving))
    except OSError as error:
        sys.stderr.write(f"Cannot listen on {options.host}:{options.port}: {error.strerror}\n")
        return 1
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _until_signal(serve_it: Coroutine[Any, Any, None]) -> None:
    serving = asyncio.create_task(serve_it)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    await asyncio.wait((serving,))
    if not serving.cancelled():
        serving.result()


if __name__ == "__main__":
    sys.exit(main())
