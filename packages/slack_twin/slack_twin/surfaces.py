"""The views that apps show to people: a stack of modals for each person, and a home tab for each app and person.

https://docs.slack.dev/surfaces/modals and https://docs.slack.dev/surfaces/app-home
"""

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from slack_twin.clock import Clock
from slack_twin.errors import Json, SlackError

MOST_IN_STACK = 3


class ViewKind(StrEnum):
    """The kind of a view; the value is Slack's `type`."""

    MODAL = "modal"
    HOME = "home"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A checked view definition of an app."""

    kind: ViewKind
    blocks: tuple[Json, ...]
    title: Json | None = None  # plain_text, like submit and close; a home tab has none of them
    submit: Json | None = None
    close: Json | None = None
    private_metadata: str = ""
    callback_id: str = ""
    external_id: str = ""
    clear_on_close: bool = False
    notify_on_close: bool = False
    submit_disabled: bool = False


@dataclass(eq=False, kw_only=True)
class AppView:
    """An open or published view. Its id stays the same when its definition and its hash change."""

    id: str
    app_id: str
    user_id: str
    definition: Definition
    hash: str
    root_id: str
    channel_id: str | None = None  # the conversation in which it was opened
    previous_id: str | None = None


@dataclass
class Surfaces:
    """The views of all people. Every changed view is announced to `listeners`."""

    clock: Clock
    listeners: list[Callable[[AppView], None]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _stacks: dict[str, list[AppView]] = field(default_factory=dict)
    _homes: dict[tuple[str, str], AppView] = field(default_factory=dict)

    def clear(self) -> None:
        self._stacks.clear()
        self._homes.clear()

    def stack(self, user_id: str) -> list[AppView]:
        """Returns a person's open modals, the front modal last."""
        return list(self._stacks.get(user_id, ()))

    def home(self, app_id: str, user_id: str) -> AppView | None:
        return self._homes.get((app_id, user_id))

    def shown(self, view_id: str) -> AppView | None:
        """Returns an open or published view, or None."""
        return next((view for view in self._all() if view.id == view_id), None)

    def find(self, app_id: str, *, view_id: str = "", external_id: str = "") -> AppView:
        """Returns an app's view by its id or by the app's external id. Raises `not_found`."""
        for view in self._all():
            is_meant = view.id == view_id if view_id else view.definition.external_id == external_id
            if is_meant and view.app_id == app_id:
                return view
        raise SlackError("not_found")

    def _all(self) -> list[AppView]:
        return [*itertools.chain.from_iterable(self._stacks.values()), *self._homes.values()]

    def open(self, definition: Definition, *, app_id: str, user_id: str, channel_id: str | None = None) -> AppView:
        """Opens a modal and replaces the person's open modals. Raises `duplicate_external_id`."""
        self._check_external_id(definition, None)
        view = self._new(definition, app_id, user_id)
        view.channel_id = channel_id
        self._stacks[user_id] = [view]
        return self._announced(view)

    def push(self, definition: Definition, onto: AppView) -> AppView:
        """Pushes a modal onto an open one. Raises `not_found`, `push_limit_reached`, `duplicate_external_id`."""
        stack = self._stacks.get(onto.user_id, [])
        if onto not in stack:
            raise SlackError("not_found")
        if len(stack) >= MOST_IN_STACK:
            raise SlackError("push_limit_reached")
        self._check_external_id(definition, None)
        view = self._new(definition, onto.app_id, onto.user_id)
        view.root_id, view.previous_id, view.channel_id = stack[0].id, stack[-1].id, onto.channel_id
        stack.append(view)
        return self._announced(view)

    def update(self, view: AppView, definition: Definition, *, expected_hash: str = "") -> AppView:
        """Updates a view. Raises `hash_conflict`, `duplicate_external_id`."""
        if expected_hash and expected_hash != view.hash:
            raise SlackError("hash_conflict")
        self._check_external_id(definition, view)
        view.definition, view.hash = definition, self._new_hash()
        return self._announced(view)

    def publish(self, definition: Definition, *, app_id: str, user_id: str, expected_hash: str = "") -> AppView:
        """Publishes an app's home tab for one person. Raises `hash_conflict`, `duplicate_external_id`."""
        known = self.home(app_id, user_id)
        if known is not None:
            return self.update(known, definition, expected_hash=expected_hash)
        self._check_external_id(definition, None)
        view = self._homes[app_id, user_id] = self._new(definition, app_id, user_id)
        return self._announced(view)

    def close(self, view: AppView) -> None:
        """Closes a modal and all modals in front of it."""
        stack = self._stacks.get(view.user_id, [])
        if view in stack:
            del stack[stack.index(view) :]
            self._announced(view)

    def close_all(self, user_id: str) -> list[AppView]:
        """Closes all modals of a person; returns them, the front modal first."""
        closed = list(reversed(self._stacks.pop(user_id, [])))
        if closed:
            self._announced(closed[0])
        return closed

    def _check_external_id(self, definition: Definition, same: AppView | None) -> None:
        wanted = definition.external_id
        if wanted and any(view.definition.external_id == wanted for view in self._all() if view is not same):
            raise SlackError("duplicate_external_id")

    def _new(self, definition: Definition, app_id: str, user_id: str) -> AppView:
        view_id = f"V{next(self._numbers):08d}"
        return AppView(
            id=view_id,
            app_id=app_id,
            user_id=user_id,
            definition=definition,
            hash=self._new_hash(),
            root_id=view_id,
        )

    def _new_hash(self) -> str:
        return f"{int(self.clock.now())}.{secrets.token_hex(4)}"

    def _announced(self, view: AppView) -> AppView:
        for listener in self.listeners:
            listener(view)
        return view
