"""The clock of these tests: see `tests.support.idle_time`."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from tests.support.idle_time import time_passes


async def test_a_pause_of_the_whole_process_reaches_no_time_limit() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        async with asyncio.timeout(0.1):
            for _ in range(3):
                reading = asyncio.create_task(loop.sock_recv(theirs, 1))
                await loop.sock_sendall(ours, b"x")
                time.sleep(0.15)
                assert await reading == b"x"


async def test_a_time_limit_is_reached_when_nobody_does_anything() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.Event().wait()
    assert time.monotonic() - began >= 0.1


async def test_time_that_passes_reaches_the_limits_within_it_and_what_was_said_before_is_still_heard() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        hearing = asyncio.create_task(asyncio.wait_for(loop.sock_recv(theirs, 1), 600))
        waiting = asyncio.create_task(asyncio.wait_for(asyncio.Event().wait(), 600))
        longer = asyncio.create_task(asyncio.wait_for(asyncio.Event().wait(), 1200))
        await asyncio.sleep(0)
        ours.send(b"x")
        time_passes(600)
        with pytest.raises(TimeoutError):
            await waiting
        assert await hearing == b"x"
        assert not longer.done()
        longer.cancel()
