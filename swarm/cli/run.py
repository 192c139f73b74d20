"""``swarm run``: a coding CLI as a worker or lead; and ``swarm logs``: what the programs of workers have written."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar
from urllib.parse import quote

from cyclopts import Parameter

from swarm.app import home
from swarm.cli import NoServer
from swarm.cli.operator_commands import CoordinatorAway, CoordinatorClient, CoordinatorRefused, coordinator_settings
from swarm.cli.terminal import Terminal
from swarm.config import Settings, load_part
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role
from swarm_base.characters import for_terminal

if TYPE_CHECKING:  # loaded late, since `swarm logs` does without
    from swarm.runner.home import Keys
    from swarm.runner.settings import RunnerSettings

_T = TypeVar("_T")
_err = Terminal(stderr=True)
_FOLLOW_SECONDS: Final = 50
_PAUSE_SECONDS: Final = 1.0

_SETTINGS: Final = (("home",), ("http", "host"), ("http", "port"), ("http", "url"), ("log", "level"))
"""The settings that a runner reads: where the coordinator's home folder and address are, if it is on this machine."""

_Flag = Annotated[bool, Parameter(negative=())]
_Several = Annotated[tuple[str, ...], Parameter(negative=())]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """The options of ``swarm run``."""

    provider: Annotated[str, Parameter(show_default=False)] = ""  # `kind_of` says what is possible
    """Always needed: claude, codex (by the program codex-acp), opencode, acp:COMMAND (an agent of the Agent Client
    Protocol), or command:COMMAND (a program: the prompt on standard input or in place of {prompt}, its answer on
    standard output). The program must be installed, and logged in by its own command."""

    role: Role = Role.WORKER
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
    from swarm.runner.environment import check_program, check_sandbox, check_trust, cli_environment, fallback
    from swarm.runner.settings import kind_of
    from swarm_base.processes.supervisor import become_private

    kind, environment = kind_of(options.provider), cli_environment(os.environ, options.env)
    if options.sandbox:
        check_sandbox()
    check_program(options.provider, environment)
    _check_build(options)
    others = [fallback(one, os.environ) for one in options.fallback]
    for provider, given, _ in others:
        check_program(provider, environment | given, "--fallback")
    become_private()
    settings, keys = _prepared([*options.env, *(one for _, _, names in others for one in names)])
    wanted = _wanted(name, options, settings, kind, environment)
    for provider in (options.provider, *(one for one, _, _ in others)):
        check_trust(provider, repo=wanted.repo, sandbox=options.sandbox, trusted=options.trust_repository)
    asyncio.run(_serve(replace(wanted, fallbacks=tuple(_fallbacks(others, wanted, settings))), keys))


def _fallbacks(
    others: Iterable[tuple[str, Mapping[str, str], object]], wanted: RunnerSettings, settings: Settings
) -> Iterator[RunnerSettings]:
    """Yields the settings of those that take over."""
    from swarm.runner.settings import kind_of, system_prompt

    home = wanted.environment.get("HOME")  # stays private if another one is given
    for number, (provider, given, _) in enumerate(others, 1):
        yield replace(
            wanted,
            account=number,
            provider=provider,
            environment=dict(wanted.environment) | dict(given),
            private=(*wanted.private, *([Path(home)] if home else [])),
            system_prompt=system_prompt(kind_of(provider), _base_prompt(settings, Role(wanted.role)), wanted.role),
        )


def _wanted(
    name: str, options: _Options, settings: Settings, kind: str, environment: Mapping[str, str]
) -> RunnerSettings:
    """Returns the runner's settings. Raises ConfigurationError for an option that is not possible."""
    from swarm.runner.settings import RunnerSettings, system_prompt

    return RunnerSettings(
        name=_name(name),
        role=options.role.value,
        provider=options.provider,
        home=(options.home or settings.home / "runners" / name).expanduser().resolve(),
        url=_url(options.url) or settings.http.address,
        system_prompt=system_prompt(kind, _base_prompt(settings, options.role), options.role.value),
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
        private=(settings.home.expanduser().resolve(),),
        trust_repository=options.trust_repository,
        silence_limit_seconds=_positive("--silence-limit", options.silence_limit),
        cost_limit_dollars=_positive("--cost-limit", options.cost_limit),
    )


def _prepared(env: Iterable[str]) -> tuple[Settings, Keys]:
    """Loads the settings and the keys, begins the log, and hides all secrets from texts and the log.

    Only a few settings are read: a runner needs no others, and may start in a folder whose settings are for something
    else, or not finished.
    """
    import structlog

    from swarm.runner.home import Keys
    from swarm_base import log, secrets

    settings, problem = load_part(_SETTINGS)
    keys = Keys.found(os.environ, settings.home.expanduser() / "operator.token")
    secrets.hide([os.environ[one] for one in env] + keys.all)
    log.configure(settings.log.level)
    if problem:
        structlog.get_logger(__name__).warning(
            "The settings file does not count.", action="runner_settings", error=problem
        )
    return settings, keys


def _base_prompt(settings: Settings, role: Role) -> str:
    from swarm_base.prompts import base_prompt

    return base_prompt(role, home.prompts(settings) / f"{role}.md")


async def _serve(wanted: RunnerSettings, keys: Keys) -> None:
    from swarm.runner.coordinator import CoordinatorConnection
    from swarm.runner.environment import not_included, unbound
    from swarm.runner.home import RunnerHome
    from swarm.runner.runner import Runner
    from swarm.runner.settings import door_of
    from swarm_base import secrets

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
            as_lead = " as a lead" if wanted.role == Role.LEAD else ""
            works = f"Runner {wanted.name} is connected to {wanted.url} ({wanted.provider}{as_lead}). Ctrl-C stops it."
            operator_file = wanted.private[0] / "operator.token"
            warning = unbound(wanted.provider, sandbox=wanted.sandbox, operator_file=operator_file)
            lines = (works, warning, not_included(wanted.repo, trusted=wanted.trust_repository))
            announce = partial(Terminal().print, "\n".join(filter(None, lines)), soft_wrap=True)
            await Runner(wanted, coordinator, *doors).serve(stopping, at_once, announce)


async def _reached(call: Callable[[], Awaitable[_T]], stopping: asyncio.Event) -> _T | None:
    """Makes a call until the coordinator answers, and says once that it does not. Returns None if stopped first."""
    from swarm.runner.coordinator import Unreachable

    is_told, stopped = False, asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        calling = asyncio.ensure_future(call())
        await asyncio.wait({calling, stopped}, return_when=asyncio.FIRST_COMPLETED)
        try:
            found = calling.result() if calling.done() or not calling.cancel() else None
        except Unreachable as error:
            if not is_told:
                _err.print(f"{error.message} {error.hint or ''} This waits for it; Ctrl-C stops.", soft_wrap=True)
            is_told = True
            await asyncio.wait({stopped}, timeout=error.pause_seconds)
        else:
            if is_told and not stopping.is_set():
                _err.print("The coordinator answers.")
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


def logs(work: str, *, run: int | None = None, follow: bool = False) -> None:
    """Show the log of a run: what the program of a worker has written while it worked (see `swarm run`).

    The log goes to standard output, without colours and other escape sequences; which run it is, to standard error.
    Logs are kept for 14 days (retention.run_logs_days).

    Examples:

        swarm tasks list

        swarm logs 01a20cd1-… --follow

        swarm logs 01a20cd1-… --run 1 | less

    Parameters
    ----------
    work
        The id of a task, for its latest run; or of a run, which is the turn_id of an answer.
    run
        Another run on the task: 1 is the first.
    follow
        Go on until the run ends, or until Ctrl-C. Waits for a run that has not begun, and for a coordinator that starts
        again.
    """
    settings = coordinator_settings()
    client = CoordinatorClient(
        settings.http.address, home.operator_token(settings), timeout_seconds=_FOLLOW_SECONDS + 10
    )
    with client as coordinator:
        run_id = _run_of(coordinator, work, run, follow=follow)
        if run_id is None:
            _err.print("No agent has worked on this task yet.")
            return
        try:
            _show_log(coordinator, run_id, follow=follow)
        except BrokenPipeError:  # such as that of `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_of(coordinator: CoordinatorClient, work: str, number: int | None, *, follow: bool) -> str | None:
    """Returns the id of a run: one on a task, or ``work`` itself; None for no run. By default it is the latest run with
    a log, or to follow the latest one, which is waited for while the task is open."""
    place, is_told = f"/tasks/{quote(work, safe='')}", False
    while True:
        try:
            found = coordinator.call("GET", f"{place}/runs")["runs"]
        except CoordinatorAway:
            raise
        except CoordinatorRefused:
            return work  # asked for as a run, which is refused if there is none
        if found or not follow or coordinator.call("GET", place)["ended_at"]:
            break
        if not is_told:
            _err.print("No agent has worked on this task yet. This waits for one; Ctrl-C stops.", style="dim")
        is_told = True
        time.sleep(_PAUSE_SECONDS)
    runs = found[::-1]
    if number is not None and not 1 <= number <= len(runs):
        raise CoordinatorRefused(f"There is no run {number}: the task has {len(runs)}.")
    if not runs:
        return None
    logged = [at for at, one in enumerate(runs) if one["log_bytes"] and not follow] or [len(runs) - 1]
    at = logged[-1] if number is None else number - 1
    one = runs[at]
    _err.print(f"Run {at + 1} of {len(runs)}, by {one['agent']}, since {one['started_at']}:", style="dim")
    return str(one["id"])


def _show_log(coordinator: CoordinatorClient, run_id: str, *, follow: bool) -> None:
    after, wait, is_away = 0, _FOLLOW_SECONDS if follow else 0, False
    while True:
        query = {"after": after, "wait_seconds": wait}
        try:
            part = coordinator.call("GET", f"/runs/{quote(run_id, safe='')}/log", params=query)
        except (NoServer, CoordinatorAway):
            if not follow:
                raise
            if not is_away:
                _err.print("The coordinator does not answer. This waits for it; Ctrl-C stops.", style="dim")
            is_away = True
            time.sleep(_PAUSE_SECONDS)
            continue
        is_away = False
        if part["start"] > after:
            _err.print("(What was before is no longer kept.)", style="dim")
        sys.stdout.write(for_terminal(part["text"]))
        sys.stdout.flush()
        if part["over"] or (part["next"] == after and not follow):
            break
        after = part["next"]
    if part["next"] == 0:
        _err.print("This run has no log." if part["over"] else "This run has no log yet.")
