"""The JSON of a view: the keys of its shape, each from the first view that has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from typing_extensions import TypedDict

from swarm.domain.json_shapes import UserShape, shape
from swarm.domain.model.threads import AuthorKind


class Note(TypedDict):
    kind: str
    text: str | None
    written_at: str
    seen_at: str | None
    count: int
    user: UserShape | None
    tags: list[str]
    readers: list[UserShape]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteView:
    kind: AuthorKind = AuthorKind.BOT
    text: str | None = None
    written_at: int = 1_700_000_000_000_000
    seen_at: int | None = None
    count: int = 3
    user_id: str | None = "U1"
    user_name: str | None = "alice"
    tags: tuple[str, ...] = ("a", "b")
    readers: tuple[Mapping[str, str], ...] = ({"id": "U2", "name": "bob", "secret": "x"},)
    secret: str = "not a key of the shape"


def test_enums_times_lists_and_nested_objects_become_json_and_other_fields_stay_out() -> None:
    assert shape(Note, NoteView()) == {
        "kind": "bot",
        "text": None,
        "written_at": "2023-11-14T22:13:20.000000Z",
        "seen_at": None,
        "count": 3,
        "user": {"id": "U1", "name": "alice"},
        "tags": ["a", "b"],
        "readers": [{"id": "U2", "name": "bob"}],
    }


def test_a_nested_object_is_null_without_its_first_part() -> None:
    assert shape(Note, NoteView(user_id=None, user_name=None))["user"] is None


def test_given_values_come_before_views_and_the_first_view_before_the_second() -> None:
    assert shape(UserShape, {"id": "U1"}, {"id": "U2", "name": "bob"}) == {"id": "U1", "name": "bob"}
    assert shape(UserShape, {"id": "U1", "name": "alice"}, name="carol") == {"id": "U1", "name": "carol"}


def test_a_nested_object_is_made_of_a_mappings_keys_too() -> None:
    view = {**{field: getattr(NoteView(), field) for field in ("kind", "text", "seen_at", "count")}, "user_id": "U3"}
    assert shape(Note, view, NoteView())["user"] == {"id": "U3", "name": "alice"}


def test_a_value_that_no_view_has_is_an_error() -> None:
    with pytest.raises(AttributeError, match="name"):
        shape(UserShape, {"id": "U1"})
