"""The folder of a runner: its token, its identity on this machine, and its lock. Only its owner can read it.

One process uses the folder at a time. The instance's id stays in the folder, so a runner that was killed goes on at
once, while a runner of the same name elsewhere is refused by the coordinator.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from swarm_base.errors import ConfigurationError
from swarm_runner.coordinator import CoordinatorConnection, Refused, register
from swarm_runner.settings import RunnerSettings

_TOKEN: Final = "token"  # noqa: S105 -- the name of a file
_INSTANCE: Final = "instance"
_LOCK: Final = "lock"


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """What may identify a runner, from its environment and the coordinator's home folder. Empty: not given."""

    token: str = ""  # of the agent
    enrolment_key: str = ""
    operator_token: str = ""

    @classmethod
    def found(cls, environment: Mapping[str, str], operator_file: Path) -> Keys:
        """Returns the keys of an environment; without any for itself, the operator's token of the coordinator on this
        machine.
        """
        token, key, operator = (
            environment.get(name, "").strip() for name in ("SWARM_TOKEN", "SWARM_ENROLMENT_KEY", "SWARM_OPERATOR_TOKEN")
        )
        if not (token or operator):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                operator = operator_file.read_text(encoding="utf-8").strip()
        return cls(token=token, enrolment_key=key, operator_token=operator)

    @property
    def all(self) -> list[str]:
        """All keys, to be kept out of texts."""
        return [key for key in (self.token, self.enrolment_key, self.operator_token) if key]


class RunnerHome:
    """The folder of one runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def locked(self) -> Iterator[str]:
        """Uses the folder, and yields the id of this instance. Raises ConfigurationError while another process uses
        the folder, or if the folder cannot be used."""
        with self._used():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.read(lock, 20).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise ConfigurationError(
                f"A runner already uses {self.folder} (process {pid}).",
                hint="One runner has one name: stop the other, or choose another name.",
            ) from error
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
            yield self._instance()
        finally:
            os.close(lock)

    async def token(self, settings: RunnerSettings, keys: Keys) -> str:
        """Returns the agent's token: the given one, the kept one, or that of a new agent, which is kept.

        Raises ConfigurationError if there is none, Refused and Unreachable.
        """
        if keys.token:
            return keys.token
        path = self.folder / _TOKEN
        if path.exists():
            _check_private(path)
            return path.read_text(encoding="utf-8").strip()
        is_lead = settings.role == "lead"
        key = keys.operator_token if is_lead else keys.enrolment_key or keys.operator_token
        if not key:
            first = "SWARM_OPERATOR_TOKEN to the operator's token (an enrolment key registers workers only)"
            first = first if is_lead else "SWARM_ENROLMENT_KEY to the coordinator's enrolment key"
            command = f"swarm agents add {settings.name}{' --role lead' if is_lead else ''}"
            raise ConfigurationError(
                f"The runner '{settings.name}' has no token, and nothing to get one with.",
                hint=f"Set {first}, or SWARM_TOKEN to the token that `{command}` prints.",
            )
        name = "SWARM_OPERATOR_TOKEN" if key == keys.operator_token else "SWARM_ENROLMENT_KEY"
        token = (await self._enrolled(settings, key, name))["token"]
        self._write(_TOKEN, token)
        return str(token)

    async def check(self, settings: RunnerSettings, coordinator: CoordinatorConnection) -> None:
        """Raises ConfigurationError if the token is not valid, or is that of another agent or role."""
        try:
            me = await coordinator.me()
        except Refused as error:
            raise ConfigurationError(
                f"The coordinator does not accept the token of '{settings.name}': {error.message}",
                hint=f"If its token was replaced or the agent removed, delete {self.folder / _TOKEN} and start again, "
                "or set SWARM_TOKEN.",
            ) from error
        if me["name"] != settings.name:
            raise ConfigurationError(
                f"The token is that of the agent '{me['name']}', not of '{settings.name}'.",
                hint=f"Give the runner that name, or set SWARM_TOKEN to the token of '{settings.name}'.",
            )
        if me["role"] != settings.role:
            raise ConfigurationError(
                f"The agent '{settings.name}' is a {me['role']}, not a {settings.role}.",
                hint=f"Start it with --role {me['role']}, or choose another name: an agent keeps its role.",
            )

    async def _enrolled(self, settings: RunnerSettings, key: str, name: str) -> dict[str, Any]:
        agent = {
            "name": settings.name,
            "role": settings.role,
            "description": settings.description,
            "capabilities": list(settings.capabilities),
        }
        try:
            return await register(settings.url, key, agent)
        except Refused as error:
            if error.code == "conflict":
                raise ConfigurationError(
                    f"The coordinator has an agent '{settings.name}' already, and its token is not in {self.folder}.",
                    hint=f"Choose another name, or set SWARM_TOKEN to its token (`swarm agents rotate {settings.name}` "
                    "makes a new one).",
                ) from error
            if error.code == "unauthorized":
                raise ConfigurationError(f"{name} is not a token of the coordinator at {settings.url}.") from error
            raise

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"The runner's folder {self.folder} cannot be used: {error.strerror or error}.",
                hint="Name another one with --home.",
            ) from error

    def _instance(self) -> str:
        path = self.folder / _INSTANCE
        with contextlib.suppress(OSError, ValueError):  # missing, or damaged
            return str(UUID(path.read_text(encoding="utf-8").strip()))
        instance = str(uuid4())
        self._write(_INSTANCE, instance)
        return instance

    def _write(self, name: str, content: str) -> None:
        """Replaces a file atomically. Only its owner can read it, from the first byte on."""
        temporary = self.folder / f".{name}.new"
        with self._used():
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.folder / name)


def _check_private(path: Path) -> None:
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"The token in {path} can be read by other users.",
            hint=f"Run `chmod 600 {path}`; if others may have read it, make a new token with `swarm agents rotate`.",
        )
