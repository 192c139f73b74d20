"""How a commit in one process wakes waiters in another: LISTEN and NOTIFY.

A notification carries the id of the process that sent it and the topic; our own are skipped, since our waiters were
woken at the commit. While the connection is down notifications are lost, so every new connection bumps everything.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from swarm.domain.errors import Unavailable

CHANNEL = "swarm_wakeups"
RECONNECT_SECONDS = 1.0

PostgresConnection = psycopg.Connection[tuple[Any, ...]]

_log = structlog.get_logger(__name__)


class Listener:
    """A thread that hears what other processes committed."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        origin: str,
        bump: Callable[[str], None],
        bump_all: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._origin = origin
        self._bump = bump
        self._bump_all = bump_all
        self._stopping = threading.Event()
        self._stop_signal, self._stop_sender = socket.socketpair()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Connect and listen. Raises `Unavailable` when there is no first connection."""
        try:
            connection = self._listening()
        except Unavailable:
            self._close_signal()
            raise
        self._thread = threading.Thread(target=self._serve, args=[connection], name="swarm-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; returns when the thread has ended."""
        self._stopping.set()
        self._stop_sender.send(b"stop")
        if self._thread is not None:
            self._thread.join()
        self._close_signal()

    def _serve(self, connection: PostgresConnection | None) -> None:
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = self._listening()
                    self._bump_all()
                self._hear(connection)
            except (psycopg.Error, Unavailable) as error:
                _log.warning("Not hearing other processes; trying again.", action="listener_down", error=str(error))
                _close(connection)
                connection = None
                self._stopping.wait(RECONNECT_SECONDS)
        _close(connection)

    def _listening(self) -> PostgresConnection:
        connection = self._connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _hear(self, connection: PostgresConnection) -> None:
        """Bump what others notify, until the connection breaks or we stop."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_signal, selectors.EVENT_READ)
            selector.register(connection.fileno(), selectors.EVENT_READ)
            while not self._stopping.is_set():
                for notification in connection.notifies(timeout=0):
                    origin, _, topic = notification.payload.partition(" ")
                    if origin != self._origin:
                        self._bump(topic)
                selector.select()

    def _close_signal(self) -> None:
        self._stop_signal.close()
        self._stop_sender.close()


def _close(connection: PostgresConnection | None) -> None:
    if connection is not None:
        connection.close()
