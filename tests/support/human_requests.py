"""Requests to people with values that do not matter, and any request within the limits of the domain."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from swarm.clock import SECOND
from swarm.domain.model.requests import (
    BY_REQUESTER,
    MAX_FIELDS,
    MAX_NAME_CHARACTERS,
    MAX_PROMPT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    Asker,
    EntryPoint,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    Option,
    RequestAnswer,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
)

REQUEST_ID = "0193b0c0-6400-7000-8000-00000000aaaa"
AT = 1_790_000_000 * SECOND


def human_request(**more: Any) -> HumanRequest:
    """An open request of the agent writer for U000ALICE."""
    values: dict[str, Any] = {
        "id": REQUEST_ID,
        "key": "k",
        "agent_id": "a1",
        "agent": "writer",
        "thread_id": "t1",
        "run_id": "r1",
        "work_id": "m1",
        "task_id": None,
        "inbox_message_ids": ("m1",),
        "lease_token": "l1",
        "asker": Asker.DURABLE,
        "status": RequestStatus.OPEN,
        "resume": ResumeStatus.NONE,
        "requesters": ("U000ALICE",),
        "title": "May I deploy?",
        "prompt": "",
        "fields": (),
        "decisions": (HumanDecision.APPROVE, HumanDecision.REJECT),
        "tool": None,
        "policy": BY_REQUESTER,
        "agent_request_id": "",
        "raw": {},
        "created_at": AT,
        "expires_at": AT + 3600 * SECOND,
        "ended_at": None,
        "reason": None,
        "answers": (),
    }
    known = {field.name for field in fields(HumanRequest)}
    return HumanRequest(**{name: value for name, value in (values | more).items() if name in known})


def ended_request(status: RequestStatus, *answers: RequestAnswer, **more: Any) -> HumanRequest:
    """A request that has ended with these answers."""
    return human_request(status=status, answers=answers, ended_at=AT + 60 * SECOND, **more)


def answer(person: str = "U1", decision: HumanDecision = HumanDecision.APPROVE, **more: Any) -> RequestAnswer:
    return RequestAnswer(person=person, decision=decision, at=AT, door=EntryPoint.SLACK, **more)


def deploy(**arguments: Any) -> ToolRequest:
    return ToolRequest(name="deploy", arguments=arguments)


def text_fields(count: int, **more: Any) -> tuple[FormField, ...]:
    return tuple(FormField(name=f"f{number}", **more) for number in range(count))


NAUGHTY = "*b* <!channel> @here & <@U1> `x` \u202e\u200b ~s~ _i_ ```\n```"


def texts(limit: int, least: int = 0) -> st.SearchStrategy[str]:
    """Texts of any length, also the longest, with characters that mean something to Slack."""
    drawn = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=least, max_size=min(limit, 60))
    longest = st.sampled_from(["n", "<", "é", "😀", "\n*", "`", '"']).map(lambda part: (part * limit)[:limit])
    return st.one_of(drawn, longest, st.just(NAUGHTY[:limit]))


_NUMBERS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-100, 4_000))
_OPTIONS = st.one_of(
    st.lists(st.builds(Option, value=texts(300, 1), label=texts(300)), min_size=1, max_size=4).map(tuple),
    st.integers(1, 200).map(lambda count: tuple(Option(value=f"v{n}", label=f"Choice {n}") for n in range(count))),
    st.integers(200, 300).map(lambda size: tuple(Option(value=f"{n}" * size, label="l" * size) for n in range(200))),
)


def form_fields(names: st.SearchStrategy[str]) -> st.SearchStrategy[FormField]:
    """Fields of every type with any label, default and limits."""

    def default_for(kind: FieldType, options: tuple[Option, ...]) -> st.SearchStrategy[Any]:
        values = [option.value for option in options]
        return st.one_of(st.none(), st.booleans(), _NUMBERS, texts(4_000), st.sampled_from(values), st.just(values[:3]))

    def field_of(name: str, kind: FieldType, options: tuple[Option, ...]) -> st.SearchStrategy[FormField]:
        return st.builds(
            FormField,
            name=st.just(name),
            type=st.just(kind),
            options=st.just(options if kind in (FieldType.SELECT, FieldType.MULTISELECT) else ()),
            label=texts(3_000),
            required=st.booleans(),
            default=default_for(kind, options),
            placeholder=texts(300),
            description=texts(3_000),
            min=_NUMBERS,
            max=_NUMBERS,
            secret=st.booleans(),
        )

    drawn = st.tuples(names, st.sampled_from(FieldType), _OPTIONS)
    return drawn.flatmap(lambda parts: field_of(*parts))


_NAMES = st.one_of(texts(MAX_NAME_CHARACTERS, 1), st.integers(0, 99).map("f{}".format))
_ARGUMENTS = st.dictionaries(
    texts(300, 1),
    st.one_of(st.none(), st.booleans(), st.integers(), texts(5_000), st.lists(st.integers(), max_size=3)),
    max_size=6,
)
_TOOLS = st.builds(ToolRequest, name=texts(MAX_TITLE_CHARACTERS, 1), arguments=_ARGUMENTS)


def any_request(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[HumanRequest]:
    """Every open request that the domain accepts."""
    parts: dict[str, st.SearchStrategy[Any]] = {
        "title": texts(MAX_TITLE_CHARACTERS, 1),
        "prompt": texts(MAX_PROMPT_CHARACTERS),
        "agent": texts(60, 1),
        "fields": st.lists(form_fields(_NAMES), max_size=6, unique_by=lambda one: one.name).map(tuple),
        "tool": st.one_of(st.none(), _TOOLS),
        "decisions": st.lists(st.sampled_from(HumanDecision), min_size=1, unique=True).map(tuple),
    }
    return st.fixed_dictionaries(parts | more).map(lambda given: human_request(**_consistent(given)))


def _consistent(given: dict[str, Any]) -> dict[str, Any]:
    """Only a request with a tool lets people change arguments or gives permissions."""
    if given["tool"] is None:
        allowed = {HumanDecision.APPROVE, HumanDecision.ANSWER, HumanDecision.REJECT}
        return given | {"decisions": tuple(one for one in given["decisions"] if one in allowed)}
    return given


def many_fields() -> st.SearchStrategy[tuple[FormField, ...]]:
    """The longest forms, with fields of one kind."""
    one = form_fields(st.just("f"))
    return st.tuples(one, st.integers(6, MAX_FIELDS)).map(
        lambda drawn: tuple(
            FormField(
                **({name: getattr(drawn[0], name) for name in FormField.__dataclass_fields__} | {"name": f"f{n}"})
            )
            for n in range(drawn[1])
        )
    )
