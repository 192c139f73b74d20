"""Waiting methods with one implementation for both synchronous and asynchronous tests.

Such a method is a generator of steps, which yields futures of the workspace's thread and receives their results. A
plain call blocks. `aio` awaits the same steps, so that an app in the test's own event loop keeps running.
"""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar, overload

__tracebackhide__ = True  # hides this module in tracebacks of failing tests

Given = ParamSpec("Given")
Result = TypeVar("Result")
Owner = TypeVar("Owner")

Steps: TypeAlias = Generator["Future[Any]", Any, Result]


class Waiting(Generic[Given, Result]):
    """A waiting method bound to one object."""

    def __init__(self, start: Callable[Given, Steps[Result]], name: str) -> None:
        self._start = start
        self._name = name

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Blocks until the method is done.

        Raises RuntimeError inside an event loop, because the call would block the loop.
        """
        if _is_in_a_loop():
            raise RuntimeError(f"{self._name}() would block this event loop: use `await ….{self._name}.aio(…)`")
        return _block_on(self._start(*args, **kwargs))

    async def aio(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Awaits the method, for asynchronous tests."""
        return await _await_on(self._start(*args, **kwargs))


class waits(Generic[Owner, Given, Result]):
    """A decorator that turns a generator of steps into a waiting method."""

    def __init__(self, start: Callable[Concatenate[Owner, Given], Steps[Result]]) -> None:
        self._start = start
        self.__doc__ = start.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Owner]) -> Self: ...
    @overload
    def __get__(self, owner: Owner, kind: type[Owner]) -> Waiting[Given, Result]: ...

    def __get__(self, owner: Owner | None, kind: type[Owner]) -> Self | Waiting[Given, Result]:
        return self if owner is None else Waiting(partial(self._start, owner), self._start.__name__)


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _block_on(steps: Steps[Result]) -> Result:
    try:
        future = next(steps)
        while True:
            future = steps.send(future.result())
    except StopIteration as done:
        result: Result = done.value
        return result


async def _await_on(steps: Steps[Result]) -> Result:
    try:
        future = next(steps)
        while True:
            future = steps.send(await asyncio.wrap_future(future))
    except StopIteration as done:
        result: Result = done.value
        return result
