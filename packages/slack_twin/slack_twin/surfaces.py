"""Views that apps show to people: a stack of modals for each person, and a home tab for each app and person.

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
    """What a view is; the value is Slack's `type`."""

    MODAL = "modal"
    HOME = "home"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What an app says about a view, found to be right."""

    kind: ViewKind
    blocks: tuple[Json, ...]
    title: Json | None = None  # plain_text, as submit and close; a home tab has none of them
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
    """A view that is open, or published. Its id stays while its definition and its hash change."""

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
    """The views of everybody. Every change is announced to `listeners` with the view that changed."""

    clock: Clock
    listeners: list[Callable[[AppView], None]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _stacks: dict[str, list[AppView]] = field(default_factory=dict)
    _homes: dict[tuple[str, str], AppView] = field(default_factory=dict)

    def clear(self) -> None:
        self._stacks.clear()
        self._homes.clear()

    def stack(self, user_id: str) -> list[AppView]:
        """The modals a person has open, the one in front last."""
        return list(self._stacks.get(user_id, ()))

    def home(self, app_id: str, user_id: str) -> AppView | None:
        return self._homes.get((app_id, user_id))

    def shown(self, view_id: str) -> AppView | None:
        """A view that is open or published."""
        return next((view for view in self._all() if view.id == view_id), None)

    def find(self, app_id: str, *, view_id: str = "", external_id: str = "") -> AppView:
        """A view of an app by its id or by the app's own. Raises `not_found`."""
        for view in self._all():
            is_meant = view.id == view_id if view_id else view.definition.external_id == external_id
            if is_meant and view.app_id == app_id:
                return view
        raise SlackError("not_found")

    def _all(self) -> list[AppView]:
        return [*itertools.chain.from_iterable(self._stacks.values()), *self._homes.values()]

    def open(self, definition: Definition, *, app_id: str, user_id: str, channel_id: str | None = None) -> AppView:
        """Open a modal in place of whatever the person has open. Raises `duplicate_external_id`."""
        self._check_external_id(definition, None)
        view = self._new(definition, app_id, user_id)
        view.channel_id = channel_id
        self._stacks[user_id] = [view]
        return self._announced(view)

    def push(self, definition: Definition, onto: AppView) -> AppView:
        """Put a modal in front of an open one. Raises `not_found`, `push_limit_reached`, `duplicate_external_id`."""
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
        """Show something else in a view. Raises `hash_conflict`, `duplicate_external_id`."""
        if expected_hash and expected_hash != view.hash:
            raise SlackError("hash_conflict")
        self._check_external_id(definition, view)
        view.definition, view.hash = definition, self._new_hash()
        return self._announced(view)

    def publish(self, definition: Definition, *, app_id: str, user_id: str, expected_hash: str = "") -> AppView:
        """Set the home tab of an app for one person. Raises `hash_conflict`, `duplicate_external_id`."""
        known = self.home(app_id, user_id)
        if known is not None:
            return self.update(known, definition, expected_hash=expected_hash)
        self._check_external_id(definition, None)
        view = self._homes[app_id, user_id] = self._new(definition, app_id, user_id)
        return self._announced(view)

    def close(self, view: AppView) -> None:
        """Take a modal away, and whatever is in front of it."""
        stack = self._stacks.get(view.user_id, [])
        if view in stack:
            del stack[stack.index(view) :]
            self._announced(view)

    def close_all(self, user_id: str) -> list[AppView]:
        """Take all modals of a person away; returns them, the one in front first."""
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
