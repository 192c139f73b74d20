"""``swarm run``: a coding CLI as a worker."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from swarm.cli.terminal import Terminal
from swarm.domain.errors import ConfigurationError

if TYPE_CHECKING:  # loaded late, since other commands do without
    from swarm.config import Settings
    from swarm.runner.home import Keys
    from swarm.runner.settings import RunnerSettings


def run(
    name: str,
    /,
    *,
    provider: str,
    url: Annotated[str | None, Parameter(env_var="SWARM_URL")] = None,
    workdir: Path | None = None,
    repo: str | None = None,
    show_diff: Annotated[bool, Parameter(negative=())] = False,
    max_concurrent: int = 1,
    env: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    sandbox: Annotated[bool, Parameter(negative=())] = False,
    silence_limit: float | None = None,
    cost_limit: float | None = None,
    description: str = "",
    capability: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    home: Path | None = None,
) -> None:
    """Make a worker out of a coding CLI: it gets tasks from Slack, works, and answers in the thread.

    Examples, on the coordinator's machine:

        swarm run wim --provider claude --repo ~/code/shop --show-diff

        swarm run ada --provider codex --workdir ~/notes --env OPENAI_API_KEY --sandbox

        swarm run cat --provider 'command:./answer.sh' --max-concurrent 3

    On another machine, SWARM_URL names the coordinator, and SWARM_ENROLMENT_KEY (the coordinator's enrolment key) or
    SWARM_TOKEN (from `swarm agents add`) lets the worker in. The first start registers it; its token is then kept.

    Ctrl-C stops in order: work that does not end within 5 seconds is given back. A second Ctrl-C stops at once.
    docs/coding-agents.md has all steps, and what to do when something does not work.

    Parameters
    ----------
    name
        The worker's name: 1 to 32 of a-z, 0-9 and '-'. One runner has one name.
    provider
        claude, codex (by the program codex-acp), opencode, acp:COMMAND (an agent of the Agent Client Protocol), or
        command:COMMAND (a program: the prompt on standard input or in place of {prompt}, its answer on standard
        output). The program must be installed, and logged in by its own command.
    url
        The coordinator's address; by default that of the coordinator on this machine.
    workdir
        One folder for all work, created if it is missing. By default each thread has a folder of its own.
    repo
        A git repository, by path or URL: each thread has a worktree and a branch swarm/… of it.
    show_diff
        With --repo, show the diff in the thread as a file when the work is done.
    max_concurrent
        How many threads are worked on at once.
    env
        A variable of this environment that the CLI gets, such as ANTHROPIC_API_KEY; may be given several times. Without
        it the CLI gets only HOME, PATH, LANG and TERM.
    sandbox
        Run the CLI with bubblewrap: only its work directory and its own state can be written; the network is left.
    silence_limit
        End a run without output for so many seconds. People see after 3 minutes that there is none.
    cost_limit
        The most that one run may cost, in dollars, for CLIs that limit it themselves.
    description
        What the worker is good at, for agents that delegate. Used when it is registered.
    capability
        A capability in one word; may be given several times. Used when it is registered.
    home
        The folder of this runner; by default $SWARM_HOME/runners/NAME.
    """
    from swarm.runner.environment import check_program, check_sandbox, cli_environment
    from swarm.runner.settings import RunnerSettings, kind_of, system_prompt

    kind, environment = kind_of(provider), cli_environment(os.environ, env)
    if sandbox:
        check_sandbox()
    check_program(provider, environment)
    settings, keys = _prepared(env)
    wanted = RunnerSettings(
        name=_name(name),
        provider=provider,
        home=(home or settings.home / "runners" / name).expanduser().resolve(),
        url=_url(url) or settings.http.address,
        system_prompt=system_prompt(kind, _base_prompt(settings)),
        description=description,
        capabilities=capability,
        max_concurrent=_concurrent(max_concurrent),
        workdir=workdir.expanduser().resolve() if workdir else None,
        repo=_repo(repo, workdir, environment, show_diff=show_diff),
        show_diff=show_diff,
        environment=environment,
        sandbox=sandbox,
        silence_limit_seconds=_positive("--silence-limit", silence_limit),
        cost_limit_dollars=_positive("--cost-limit", cost_limit),
    )
    asyncio.run(_serve(wanted, keys))


def _prepared(env: Iterable[str]) -> tuple[Settings, Keys]:
    """Loads the settings and the keys, begins the log, and hides all secrets from texts and the log."""
    from swarm.config import load
    from swarm.domain.text import secrets
    from swarm.runner.home import Keys
    from swarm.telemetry import log

    settings = load()
    keys = Keys.found(os.environ, settings.home.expanduser() / "operator.token")
    secrets.hide([os.environ[one] for one in env] + keys.all)
    log.configure(settings.log.level)
    return settings, keys


def _base_prompt(settings: Settings) -> str:
    from swarm.app import home
    from swarm.cli.commands import base_prompt
    from swarm.domain.model.agents import Role

    return base_prompt(Role.WORKER, home.prompts(settings) / "worker.md")


async def _serve(wanted: RunnerSettings, keys: Keys) -> None:
    from swarm.domain.text import secrets
    from swarm.runner.coordinator import CoordinatorConnection
    from swarm.runner.home import RunnerHome
    from swarm.runner.runner import Runner
    from swarm.runner.settings import door_of

    door = door_of(wanted.provider)
    place = RunnerHome(wanted.home)
    with place.locked() as instance:
        stopping, at_once = _signals()
        token = await place.token(wanted, keys)
        secrets.hide([token])
        async with CoordinatorConnection(wanted.url, token, instance) as coordinator:
            await place.check(wanted, coordinator)
            works = f"{wanted.name} works with {wanted.provider} for {wanted.url}. Ctrl-C stops."
            announce = partial(Terminal().print, works, soft_wrap=True)
            await Runner(wanted, coordinator, door).serve(stopping, at_once, announce)


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Returns the events of the first and the second signal to stop."""
    events = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        next((event for event in events if not event.is_set()), events[-1]).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return events


def _name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        raise ConfigurationError(f"The name {name!r} is not possible: 1 to 32 of a-z, 0-9 and '-' are expected.")
    return name


def _concurrent(count: int) -> int:
    from swarm.runner.settings import MAX_CONCURRENT

    if not 1 <= count <= MAX_CONCURRENT:
        raise ConfigurationError(f"--max-concurrent is {count}: 1 to {MAX_CONCURRENT} is expected.")
    return count


def _url(url: str | None) -> str | None:
    if url and not re.match(r"https?://[^/]", url):
        raise ConfigurationError(f"--url is {url!r}: an address such as http://127.0.0.1:8080 is expected.")
    return url


def _positive(option: str, value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise ConfigurationError(f"{option} is {value:g}: a number above 0 is expected.")
    return value


def _repo(repo: str | None, workdir: Path | None, environment: Mapping[str, str], *, show_diff: bool) -> str | None:
    if not repo:
        if show_diff:
            raise ConfigurationError("--show-diff needs --repo: only a worktree has a diff.")
        return None
    if workdir:
        raise ConfigurationError("--repo and --workdir exclude each other: a worktree is a work directory.")
    if not shutil.which("git"):
        raise ConfigurationError("--repo needs git, which is not installed on this machine.")
    if (local := Path(repo).expanduser()).exists():
        _check_has_commit(repo, local, environment)
        return str(local.resolve())
    if ":" not in repo:
        raise ConfigurationError(f"--repo is {repo!r}, which is neither a folder nor the URL of a repository.")
    return repo


def _check_has_commit(repo: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Raises ConfigurationError unless git finds a commit, at which a worktree can begin."""
    asked = ["git", "-C", str(folder), "rev-parse", "--verify", "HEAD"]
    found = subprocess.run(  # noqa: S603 - a list, without a shell
        asked, env=dict(environment), capture_output=True, text=True, errors="replace", check=False
    )
    if found.returncode == 0:
        return
    raise ConfigurationError(
        f"--repo is {repo!r}, where git finds no commit to begin at: {' '.join(found.stderr.split())[-300:]}.",
        hint="A worktree needs a git repository with a first commit.",
    )
