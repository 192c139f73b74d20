"""The command: a coding CLI as a worker or lead. It is ``swarm run`` where swarm is installed, too."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Final, Literal, TextIO, TypeVar

import structlog
from cyclopts import Parameter

from swarm_base import log, secrets
from swarm_base.characters import for_terminal
from swarm_base.errors import ConfigurationError
from swarm_base.place import GROUP, Place
from swarm_base.processes.supervisor import become_private
from swarm_base.prompts import base_prompt
from swarm_runner.coordinator import CoordinatorConnection, Unreachable
from swarm_runner.environment import (
    check_program,
    check_sandbox,
    check_trust,
    cli_environment,
    fallback,
    not_included,
    unbound,
)
from swarm_runner.home import Keys, RunnerHome
from swarm_runner.runner import Runner
from swarm_runner.settings import MAX_CONCURRENT, RunnerSettings, door_of, kind_of, system_prompt

_T = TypeVar("_T")
_LEVELS: Final = ("debug", "info", "warning", "error")
_Flag = Annotated[bool, Parameter(negative=())]
_Several = Annotated[tuple[str, ...], Parameter(negative=())]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """The options of ``swarm run``."""

    provider: Annotated[str, Parameter(show_default=False)] = ""  # `kind_of` says what is possible
    """Always needed: claude, codex (by the program codex-acp), opencode, acp:COMMAND (an agent of the Agent Client
    Protocol), or command:COMMAND (a program: the prompt on standard input or in place of {prompt}, its answer on
    standard output). The program must be installed, and you must be logged in to it."""

    role: Literal["lead", "worker"] = "worker"
    """A worker gets tasks. A lead gets people's messages: it answers them, or delegates to workers. It registers with
    the operator's token, not with an enrolment key, and keeps its role."""

    url: Annotated[str | None, Parameter(env_var="SWARM_URL")] = None
    """The coordinator's address; by default that of the coordinator on this machine."""

    workdir: Path | None = None
    """One folder for all work, created if it is missing. By default each thread has a folder of its own."""

    repo: str | None = None
    """A git repository, by path or URL: each thread has a worktree and a branch swarm/… of it."""

    base: str | None = None
    """With --repo, where new branches begin: a branch, tag or commit. By default HEAD, or a URL's default branch."""

    include: _Several = ()
    """With --repo PATH, files that git ignores and that each worktree gets as copies, such as .env: a pattern of
    .gitignore; may be given several times. The repository's .worktreeinclude counts only with --trust-repository."""

    setup: str = ""
    """With --repo, a shell command that runs in each new worktree before the CLI, such as 'npm ci'."""

    show_diff: _Flag = False
    """With --repo, show the diff in the thread as a file when the work is done, if it has changed."""

    max_concurrent: int = 1
    """How many threads are worked on at once."""

    env: _Several = ()
    """A variable of this environment that the CLI gets, such as ANTHROPIC_API_KEY; may be given several times. Without
    it the CLI gets only HOME, PATH, LANG and TERM."""

    fallback: _Several = ()
    """Another account or CLI that takes over when a limit of the account is reached: a provider, and before it the
    variables that it gets besides those of --env, such as 'HOME=~/second claude' or 'ANTHROPIC_API_KEY=$SECOND_KEY
    claude'; may be given several times."""

    sandbox: _Flag = False
    """Run the CLI with bubblewrap: it sees the system, its work and its own state, and nothing else; the network is
    left."""

    readable: Annotated[tuple[Path, ...], Parameter(negative=())] = ()
    """With --sandbox, a folder that the CLI may also read, such as that of a compiler; may be given several times."""

    trust_repository: _Flag = False
    """Let settings of the repository run programs: hooks and plugins of the CLI, filters of git."""

    silence_limit: float | None = None
    """End a run without output for so many seconds. People see after 3 minutes that there is none."""

    cost_limit: float | None = None
    """The most that one run may cost, in dollars, for CLIs that limit it themselves."""

    description: str = ""
    """What the agent is good at, for agents that delegate. Used when it is registered."""

    capability: _Several = ()
    """A capability in one word; may be given several times. Used when it is registered."""

    home: Path | None = None
    """The folder of this runner; by default $SWARM_HOME/runners/NAME."""


_NO_OPTIONS: Final = _Options()


def run(name: str, /, *, options: Annotated[_Options, Parameter(name="*")] = _NO_OPTIONS) -> None:
    """Make an agent out of a coding CLI: it gets work from Slack, does it, and answers in the thread.

    Examples, on the coordinator's machine:

        swarm run wim --provider claude --repo ~/code/shop --show-diff

        swarm run ada --provider codex --workdir ~/notes --env OPENAI_API_KEY --sandbox

        swarm run cat --provider 'command:./answer.sh' --max-concurrent 3

        swarm run lea --provider claude --role lead

    On another machine, SWARM_URL names the coordinator, and SWARM_ENROLMENT_KEY (the coordinator's enrolment key) or
    SWARM_TOKEN (from `swarm agents add`) lets the agent in. The first start registers it; its token is then kept.

    Ctrl-C stops in order: work that does not end within 5 seconds is given back. A second Ctrl-C stops at once.
    docs/coding-agents.md has all steps, and what to do when something does not work.

    Parameters
    ----------
    name
        The agent's name: 1 to 32 of a-z, 0-9 and '-'. One runner has one name.
    """
    kind, environment = kind_of(options.provider), cli_environment(os.environ, options.env)
    if options.sandbox:
        check_sandbox()
    check_program(options.provider, environment)
    _check_build(options)
    others = [fallback(one, os.environ) for one in options.fallback]
    for provider, given, _ in others:
        check_program(provider, environment | given, "--fallback")
    become_private()
    place, keys = _prepared([*options.env, *(one for _, _, names in others for one in names)])
    base = base_prompt(options.role, place.home / "prompts" / f"{options.role}.md")
    wanted = _wanted(name, options, place, kind, environment, base)
    for provider in (options.provider, *(one for one, _, _ in others)):
        check_trust(provider, repo=wanted.repo, sandbox=options.sandbox, trusted=options.trust_repository)
    asyncio.run(_serve(replace(wanted, fallbacks=tuple(_fallbacks(others, wanted, base))), keys))


def _fallbacks(
    others: Iterable[tuple[str, Mapping[str, str], object]], wanted: RunnerSettings, base: str
) -> Iterator[RunnerSettings]:
    """Yields the settings of those that take over."""
    home = wanted.environment.get("HOME")  # stays private if another one is given
    for number, (provider, given, _) in enumerate(others, 1):
        yield replace(
            wanted,
            account=number,
            provider=provider,
            environment=dict(wanted.environment) | dict(given),
            private=(*wanted.private, *([Path(home)] if home else [])),
            system_prompt=system_prompt(kind_of(provider), base, wanted.role),
        )


def _wanted(
    name: str, options: _Options, place: Place, kind: str, environment: Mapping[str, str], base: str
) -> RunnerSettings:
    """Returns the runner's settings. Raises ConfigurationError for an option that is not possible."""
    return RunnerSettings(
        name=_name(name),
        role=options.role,
        provider=options.provider,
        home=(options.home or place.home / "runners" / name).expanduser().resolve(),
        url=_url(options.url) or place.url,
        system_prompt=system_prompt(kind, base, options.role),
        description=options.description,
        capabilities=options.capability,
        max_concurrent=_concurrent(options.max_concurrent),
        workdir=options.workdir.expanduser().resolve() if options.workdir else None,
        repo=_repo(options.repo, options.workdir, environment, show_diff=options.show_diff),
        base=_base(options.base, options.repo),
        include=options.include,
        setup=options.setup,
        show_diff=options.show_diff,
        environment=environment,
        sandbox=options.sandbox,
        readable=tuple(one.expanduser().resolve() for one in options.readable),
        private=(place.home.resolve(),),
        trust_repository=options.trust_repository,
        silence_limit_seconds=_positive("--silence-limit", options.silence_limit),
        cost_limit_dollars=_positive("--cost-limit", options.cost_limit),
    )


def _prepared(env: Iterable[str]) -> tuple[Place, Keys]:
    """Finds the coordinator and the keys, begins the log, and hides all secrets from texts and the log."""
    place = _place()
    keys = Keys.found(os.environ, place.home / "operator.token")
    secrets.hide([os.environ[one] for one in env] + keys.all)
    log.configure(place.log_level)
    if place.problem:
        structlog.get_logger(__name__).warning(
            "The settings file does not count.", action="runner_settings", error=place.problem
        )
    return place, keys


def _place() -> Place:
    """Returns what the coordinator's package tells from its settings, if it is installed, or what variables tell."""
    for point in entry_points(group=GROUP):
        return point.load()()  # type: ignore[no-any-return]
    home, port, level = (os.environ.get(name) for name in ("SWARM_HOME", "PORT", "SWARM_LOG_LEVEL"))
    if not (port or "0").isdecimal():
        raise ConfigurationError(f"PORT is {port!r}: the number of the coordinator's port is expected.")
    if level not in (None, "", *_LEVELS):
        raise ConfigurationError(f"SWARM_LOG_LEVEL is {level!r}: expected {', '.join(_LEVELS)}.")
    return Place(
        home=Path(home or "~/.swarm").expanduser(),
        url=f"http://127.0.0.1:{port or 8080}",  # the option has SWARM_URL
        log_level=level or "info",
    )


async def _serve(wanted: RunnerSettings, keys: Keys) -> None:
    doors = [door_of(one.provider) for one in (wanted, *wanted.fallbacks)]
    place = RunnerHome(wanted.home)
    with place.locked() as instance:
        stopping, at_once = _signals()
        token = await _reached(partial(place.token, wanted, keys), stopping)
        if token is None:
            return
        secrets.hide([token])
        async with CoordinatorConnection(wanted.url, token, instance) as coordinator:
            await _reached(partial(place.check, wanted, coordinator), stopping)
            if stopping.is_set():
                return
            await coordinator.leave()  # an earlier process of this instance has no work any more
            as_lead = " as a lead" if wanted.role == "lead" else ""
            works = f"Runner {wanted.name} is connected to {wanted.url} ({wanted.provider}{as_lead}). Ctrl-C stops it."
            operator_file = wanted.private[0] / "operator.token"
            warning = unbound(wanted.provider, sandbox=wanted.sandbox, operator_file=operator_file)
            lines = (works, warning, not_included(wanted.repo, trusted=wanted.trust_repository))
            announce = partial(_say, "\n".join(filter(None, lines)), sys.stdout)
            await Runner(wanted, coordinator, *doors).serve(stopping, at_once, announce)


async def _reached(call: Callable[[], Awaitable[_T]], stopping: asyncio.Event) -> _T | None:
    """Makes a call until the coordinator answers, and says once that it does not. Returns None if stopped first."""
    is_told, stopped = False, asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        calling = asyncio.ensure_future(call())
        await asyncio.wait({calling, stopped}, return_when=asyncio.FIRST_COMPLETED)
        try:
            found = calling.result() if calling.done() or not calling.cancel() else None
        except Unreachable as error:
            if not is_told:
                _say(f"{error.message} {error.hint or ''} This waits for it; Ctrl-C stops.")
            is_told = True
            await asyncio.wait({stopped}, timeout=error.pause_seconds)
        else:
            if is_told and not stopping.is_set():
                _say("The coordinator answers.")
            return found
    return None


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Returns the events of the first and the second signal to stop."""
    events = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        next((event for event in events if not event.is_set()), events[-1]).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return events


def _say(text: str, stream: TextIO | None = None) -> None:
    print(for_terminal(text), file=stream or sys.stderr, flush=True)


def _name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,32}", name):
        raise ConfigurationError(f"The name {name!r} is not possible: 1 to 32 of a-z, 0-9 and '-' are expected.")
    return name


def _concurrent(count: int) -> int:
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


def _base(base: str | None, repo: str | None) -> str | None:
    if base is not None and (not repo or not base.strip() or base.startswith("-")):
        raise ConfigurationError(f"--base is {base!r}: a branch, tag or commit of a repository (--repo) is expected.")
    return base


def _check_build(options: _Options) -> None:
    if options.setup and not options.repo:
        raise ConfigurationError("--setup needs --repo: it runs in new worktrees only.")
    if options.include and not (options.repo and Path(options.repo).expanduser().exists()):
        raise ConfigurationError("--include needs --repo with a folder: only a checkout has files that git ignores.")


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
