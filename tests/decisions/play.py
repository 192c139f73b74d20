"""Plays cells of the matrix: asks, perhaps kills, decides, perhaps retries, and looks."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from swarm.domain.requests.button_actions import DECIDE_ACTION, RETRY_RUN_ACTION
from tests.decisions.expected import CLIS, NOT_OFFERED, NOTHING_TO_RETRY, SEQUENTIAL, Act, Asker, Cell, Course, expected
from tests.decisions.journal import ASKS
from tests.decisions.scene import (
    FOUR_EYES,
    Scene,
    buttons_of,
    decisions_on,
    has_retry,
    look_until,
    request_on,
    words_of,
)

SETTLED_SECONDS: Final = 40.0
_QUIET_SECONDS: Final = 2.0  # the sweep looks every second
_DROP: Final = "Drop it and go on"
_REFUSAL: Final = re.compile(r"[Oo]nly .* can decide|not among the people|has to decide|Only members")
_ASKING: Final = frozenset({"act", "twice", "form", "wait"})
_COMMANDS: Final = {Act.ANSWER: "form", Act.SECOND: "twice"}


@dataclass
class Played:
    """A cell on its way. ``between`` is what the cards said after the resume had failed."""

    asker: Asker
    act: Act
    course: Course
    id: str
    ts: str = ""
    asked_ts: str = ""  # of the message that asked
    offered: set[str] = field(default_factory=set)
    cards: dict[str, str] = field(default_factory=dict)  # the requests that were shown, by the ts of their cards
    withdrawn: set[str] = field(default_factory=set)
    between: str = ""
    problem: str = ""
    seen: Cell = field(default_factory=Cell)

    @property
    def channel(self) -> str:
        return FOUR_EYES if self.act is Act.BUNDLE else "general"

    @property
    def expected(self) -> Cell:
        return expected(self.asker, self.act, self.course)

    @property
    def has_failure(self) -> bool:
        return self.course is Course.RETRIED

    @property
    def is_played(self) -> bool:
        """Where nothing is resumed, two decisions show it for all."""
        return self.expected is not NOTHING_TO_RETRY or self.act in (Act.APPROVE, Act.REJECT)

    def person(self, role: str) -> str:
        return f"{role}{self.id}"


async def play(scene: Scene, wanted: list[tuple[Asker, Act]], course: Course) -> list[Played]:
    """Plays cells of one course, all at once. What goes wrong on the way is in their `problem`."""
    made = [Played(asker=asker, act=act, course=course, id=scene.next_cell()) for asker, act in wanted]
    cells = [cell for cell in made if cell.is_played]
    await scene.people([cell.id for cell in cells])
    await asyncio.gather(*(_careful(_ask(scene, cell), cell) for cell in cells))
    if course is Course.KILLED:
        await scene.stage.restart_coordinator()
    await asyncio.gather(*(_careful(_go_on(scene, cell), cell) for cell in cells if not cell.problem))
    await asyncio.sleep(_QUIET_SECONDS)  # what comes twice, comes now
    await asyncio.gather(*(_careful(_note(scene, cell), cell) for cell in cells))
    return made


async def _careful(step: Any, cell: Played) -> None:
    try:
        await step
    except (AssertionError, LookupError, ValueError, httpx2.HTTPError) as error:
        cell.problem = cell.problem or (str(error) or repr(error))[:600]


async def _ask(scene: Scene, cell: Played) -> None:
    alice = cell.person("alice")
    command = "act" if cell.expected is NOT_OFFERED else _COMMANDS.get(cell.act, "act")
    if cell.act is Act.BUNDLE:
        await _bundle(scene, cell)
    else:
        text = f"swarm#{cell.asker} {command} {cell.id}"
        cell.ts = cell.asked_ts = await scene.twin.say(text, user=alice, channel=cell.channel)
    found = await _shown(scene, cell, _count(cell))
    cell.offered = decisions_on(found[0])


def _count(cell: Played) -> int:
    """Returns how many questions are open at once."""
    return 2 if cell.act is Act.SECOND and cell.asker not in SEQUENTIAL else 1


async def _messages(scene: Scene, cell: Played) -> list[dict[str, Any]]:
    """Returns the messages of the thread, and remembers which of them are cards."""
    messages: list[dict[str, Any]] = await scene.twin.messages(channel=cell.channel, thread_ts=cell.ts)
    for message in messages:
        if request := request_on(message):
            cell.cards[message["ts"]] = request
        if message["ts"] in cell.cards and "Withdrawn" in words_of(message["blocks"]):
            cell.withdrawn.add(message["ts"])
    return messages


async def _shown(scene: Scene, cell: Played, count: int) -> list[dict[str, Any]]:
    """Returns the cards of open questions, once there are so many."""

    async def look() -> list[dict[str, Any]]:
        return [message for message in await _messages(scene, cell) if request_on(message)]

    return await look_until(look, lambda found: len(found) >= count, within_seconds=40, what=f"{count} cards are shown")


async def _bundle(scene: Scene, cell: Played) -> None:
    """Two people write while the agent is busy, so that one run answers both."""
    alice, bob, channel = cell.person("alice"), cell.person("bob"), cell.channel
    cell.ts = await scene.twin.say(f"swarm#{cell.asker} wait {cell.id}", user=alice, channel=channel)

    async def is_busy() -> bool:
        return scene.journal.of("heard", cell.id) == ["wait"]

    await look_until(is_busy, what="the agent is busy", within_seconds=30)
    told = [
        await scene.twin.say(f"act {cell.id}", user=person, channel=channel, thread=cell.ts) for person in (alice, bob)
    ]
    cell.asked_ts = told[0]

    async def are_stored() -> bool:
        messages = await _messages(scene, cell)
        return all(message["reactions"] for message in messages if message["ts"] in told)

    await look_until(are_stored, what="both messages are stored", within_seconds=30)
    scene.journal.go_on(cell.id)


async def _go_on(scene: Scene, cell: Played) -> None:
    if cell.asker is Asker.TOOL_SERVER and cell.course is Course.KILLED:
        await _asked_anew(scene, cell)
    if cell.has_failure:
        scene.journal.fail(cell.id)
    if cell.expected is NOTHING_TO_RETRY:
        await _press(scene, cell, cell.person("alice"), cell.act)
        return
    if cell.expected is NOT_OFFERED:
        if cell.act in (Act.EDIT, Act.ANSWER, Act.DROP):
            await _decide(scene, cell)
        return
    await _decide(scene, cell)
    if cell.has_failure:
        await _retry(scene, cell)
    if cell.act is Act.SECOND and cell.asker in SEQUENTIAL:
        await _second(scene, cell)
    if cell.act is Act.GRANT:
        await _again(scene, cell)

    async def look() -> Cell:
        return await seen(scene, cell)

    await look_until(look, lambda found: found == cell.expected, within_seconds=SETTLED_SECONDS)


async def _asked_anew(scene: Scene, cell: Played) -> None:
    """The call that waited is gone, and the run that is done again has asked the same."""
    before = set(cell.cards)

    async def look() -> bool:
        is_open = {message["ts"] for message in await _messages(scene, cell) if request_on(message)}
        return not is_open & before and len(is_open) == len(before)

    await look_until(look, within_seconds=40, what="the question is asked anew")


async def _decide(scene: Scene, cell: Played) -> None:
    alice, bob, carol = map(cell.person, ("alice", "bob", "carol"))
    match cell.act:
        case Act.APPROVE | Act.REJECT:
            await _press(scene, cell, alice, cell.act)
        case Act.EDIT:
            await _over_http(scene, cell, "edit", arguments={"path": f"{cell.id}-edited"})
        case Act.ANSWER:
            await _over_http(scene, cell, "answer", values=_values(cell))
        case Act.EXPIRY:
            for card in await _shown(scene, cell, 1):
                scene.expire(cell.cards[card["ts"]])
        case Act.STOP:
            await scene.twin.say("!stop", user=alice, channel=cell.channel, thread=cell.ts)
        case Act.DELETE:
            await scene.twin.ask(
                "DELETE", "messages", json={"user": alice, "channel": cell.channel, "ts": cell.asked_ts}
            )
        case Act.DROP:
            await _drop(scene, cell)
        case Act.GRANT:
            await _press(scene, cell, alice, "approve_thread")
        case Act.BYSTANDER:
            await scene.twin.say(f"interesting {cell.id}", user=bob, channel=cell.channel, thread=cell.ts)
            await _stored(scene, cell, f"interesting {cell.id}")
            if "told" in cell.expected.told:
                await _told(scene, cell, bob, 1)
            await _press(scene, cell, bob, "approve")
            await _press(scene, cell, alice, "approve")
        case Act.SECOND:
            await _press(scene, cell, alice, "approve")
            if cell.asker not in SEQUENTIAL:
                await _press(scene, cell, alice, "reject", place=1)
        case Act.BUNDLE:
            for person in (alice, bob):
                await _press(scene, cell, person, "approve")
            await _press(scene, cell, carol, "approve")


def _values(cell: Played) -> dict[str, Any]:
    """The form of CAIPE has more fields."""
    if cell.asker in (Asker.CAIPE_FORM, Asker.CAIPE_DATA):
        return {"repo": "blue", "where": ["eu"]}
    return {"question_1": "blue"} if cell.asker is Asker.CLAUDE else {"word": "blue"}


async def _press(scene: Scene, cell: Played, person: str, decision: str, *, place: int = 0) -> None:
    """Presses a button of the card of an open question; one that is not there is a problem."""
    await _messages(scene, cell)
    cards = [ts for ts in cell.cards if ts not in cell.withdrawn]
    assert len(cards) > place, "there is no card"
    under = cards[place]
    pressed = {"user": person, "channel": cell.channel, "ts": under, "action_id": f"{DECIDE_ACTION}{decision}"}
    assert (await scene.twin.ask("POST", "actions", json=pressed))["ok"]


async def _over_http(scene: Scene, cell: Played, decision: str, **given: Any) -> None:
    """Decides as alice. Where it is not offered, it is refused as well."""
    (card,) = await _shown(scene, cell, 1)
    alice = next(id for id, name in scene.ids.items() if name == cell.person("alice"))
    wish = {"decision": decision, "as": alice, **given}
    answer = await scene.operator.ask("POST", f"/requests/{cell.cards[card['ts']]}/decide", json=wish)
    assert answer.is_success != (cell.expected is NOT_OFFERED), f"{answer.status_code}: {answer.text}"


async def _drop(scene: Scene, cell: Played) -> None:
    """The requester writes; a built-in agent drops its question by that, others offer a button."""
    alice = cell.person("alice")
    text = f"interesting {cell.id}"
    await scene.twin.say(text, user=alice, channel=cell.channel, thread=cell.ts)
    await _stored(scene, cell, text)
    if cell.expected is not NOT_OFFERED and cell.asker is not Asker.BUILT_IN:
        (message, action) = await look_until(lambda: _drop_button(scene, cell), any, what="the drop is offered")
        pressed = {"user": alice, "channel": cell.channel, "ts": message, "action_id": action}
        assert (await scene.twin.ask("POST", "actions", json=pressed))["ok"]


async def _drop_button(scene: Scene, cell: Played) -> tuple[str, str]:
    """Returns the private message with the button, and the button's action; empty words if there is none."""
    for message in await scene.twin.private(cell.person("alice"), cell.channel):
        for button in buttons_of(message) if message["thread_ts"] == cell.ts else []:
            if _DROP in words_of(button):
                return message["ts"], button["action_id"]
    return "", ""


async def _stored(scene: Scene, cell: Played, text: str) -> None:
    async def look() -> bool:
        messages = await _messages(scene, cell)
        return any(message["reactions"] for message in messages if message["text"] == text)

    await look_until(look, what=f"“{text}” is stored")


async def _told(scene: Scene, cell: Played, person: str, count: int) -> None:
    await look_until(lambda: _whispers(scene, cell, person), lambda told: len(told) >= count, what=f"{person} is told")


async def _whispers(scene: Scene, cell: Played, person: str) -> list[str]:
    """Returns what only this person sees in the thread."""
    private = await scene.twin.private(person, cell.channel)
    return [message["text"] for message in private if message["thread_ts"] == cell.ts]


async def _retry(scene: Scene, cell: Played) -> None:
    """Waits until the agent has failed; presses Retry, unless the work comes again by itself."""

    async def look() -> tuple[list[str], bool]:
        messages = await _messages(scene, cell)
        return has_retry(messages), len(scene.journal.of("got", cell.id)) > len(cell.expected.gets.split(", ")) // 2

    buttons, comes_again = await look_until(look, any, within_seconds=30, what="a Retry button is shown")
    if comes_again or not buttons:
        return

    async def cards() -> str:
        return (await seen(scene, cell)).cards

    if cell.act is not Act.DROP:  # which stays dropped, whether the agent has heard of it or not
        cell.between = await look_until(
            cards, lambda cards: "failed" in cards, what="the card says that the agent failed"
        )
    pressed = {"user": cell.person("alice"), "channel": cell.channel, "ts": buttons[-1], "action_id": RETRY_RUN_ACTION}
    assert (await scene.twin.ask("POST", "actions", json=pressed))["ok"]


async def _second(scene: Scene, cell: Played) -> None:
    """The resumed run asks again."""
    await _shown(scene, cell, 1)
    await _press(scene, cell, cell.person("alice"), "reject", place=1)


async def _again(scene: Scene, cell: Played) -> None:
    """Asks for the same tool again in the thread, when the first call is over."""

    async def look() -> bool:
        return bool(scene.journal.of("ran", cell.id)) and (await seen(scene, cell)).session == "active"

    await look_until(look, what="the first call is over", within_seconds=30)
    await scene.twin.say(f"again {cell.id}", user=cell.person("alice"), channel=cell.channel, thread=cell.ts)


async def _note(scene: Scene, cell: Played) -> None:
    """Looks for the last time."""
    if cell.expected is NOTHING_TO_RETRY:
        cards = (await seen(scene, cell)).cards
        cell.seen = Cell(cards=cards) if "failed" in cards or "by alice" not in cards else NOTHING_TO_RETRY
        return
    if cell.expected is NOT_OFFERED:
        cell.seen = NOT_OFFERED if await _is_not_offered(scene, cell) else Cell(cards="offered")
        return
    cell.seen = await seen(scene, cell)


async def _is_not_offered(scene: Scene, cell: Played) -> bool:
    """Whether nothing on the card or beside it lets people do this."""
    match cell.act:
        case Act.EDIT | Act.ANSWER:
            return cell.act.value not in cell.offered
        case Act.GRANT:
            return not {"approve_thread", "approve_always"} & cell.offered
        case Act.DROP:
            return await _drop_button(scene, cell) == ("", "")
    raise AssertionError(f"{cell.act} is always offered")


async def seen(scene: Scene, cell: Played) -> Cell:
    """Returns what has come of a cell so far."""
    messages = await _messages(scene, cell)
    shown_cards = [message for message in messages if message["ts"] in cell.cards]
    heard = [command for command in scene.journal.of("heard", cell.id) if command not in _ASKING]
    return Cell(
        gets=", ".join(_gets(scene.journal.of("got", cell.id), cell)),
        runs=_runs(scene.journal.of("ran", cell.id)),
        cards=", ".join(state_of(scene.names_in(words_of(card["blocks"]))) for card in shown_cards),
        hears=", ".join(heard),
        told=await _told_people(scene, cell) if cell.expected.told else "",
        order=_order(messages, cell) if cell.expected.order else "",
        retry=bool(has_retry(messages)) and (cell.asker not in CLIS or cell.act in (Act.STOP, Act.DELETE)),
        session=await scene.session(cell.ts),
    )


async def _told_people(scene: Scene, cell: Played) -> str:
    """Returns who was told privately: what is waited for, and that they may not decide."""
    parts = []
    for role in ("alice", "bob"):
        whispers = await _whispers(scene, cell, cell.person(role))
        refused = [text for text in whispers if _REFUSAL.search(text)]
        words = ["told"] if "told" in cell.expected.told and len(whispers) > len(refused) else []
        words += ["refused"] if refused else []
        parts += [f"{role}: {', '.join(words)}"] if words and (role == "bob" or cell.act is Act.BUNDLE) else []
    return ", ".join(parts)


def _order(messages: list[dict[str, Any]], cell: Played) -> str:
    """Returns what the messages of the swarm are, from top to bottom."""
    found = []
    for message in messages:
        said = words_of(message["blocks"]) or message["text"]
        kinds = ["card"] if message["ts"] in cell.cards else []
        kinds += [word for word, text in (("asks", ASKS), ("done", "Done:")) if not kinds and text in said]
        found.append(" ".join(kinds))
    return ", ".join(filter(None, found))


def _gets(words: list[str], cell: Played) -> list[str]:
    """A CLI's call that is withdrawn may be refused before its turn is cancelled; nothing runs in either case."""
    is_withdrawn = cell.asker in CLIS and cell.act in (Act.STOP, Act.DELETE)
    return ["cancelled" if is_withdrawn and word == "rejected" else word for word in words]


def _runs(ran: list[str]) -> str:
    times = {0: "never", 1: "once", 2: "twice"}.get(len(ran), f"{len(ran)} times")
    return f"{times}, as edited" if "-edited" in ran else times


def state_of(words: str) -> str:
    """Returns what a card says of its question, in the words of the table."""
    failed = " (failed)" if re.search(r"agent failed|failed after", words, re.IGNORECASE) else ""
    if found := re.search(r"(Approved with changed arguments|Approved|Rejected|Answered) by @?(\w+)", words):
        return f"{found.group(1).lower()} by {found.group(2).lower()}{failed}"
    if "obody decided in time" in words:
        return f"expired{failed}"
    if found := re.search(r"(?:Withdrawn|Dropped)\b.*", words, re.DOTALL):
        return _withdrawn(found.group(0)) + failed
    return "open"


def _withdrawn(words: str) -> str:
    by = re.search(r"by @?(alice|bob|carol|the operator)", words, re.IGNORECASE)
    who = f" by {by.group(1).lower()}" if by else ""
    for word, why in (
        ("stopped", f"stopped{who}"),
        ("deleted", "deleted"),
        ("drop", f"dropped{who}"),
        ("something else", "something else"),
    ):
        if word in words.lower():
            return f"withdrawn: {why}"
    return "withdrawn: lost" if re.search(r"restart|ended|lost", words) else f"withdrawn: {words[:80]}"


def differing(cell: Played) -> str:
    """Returns how a cell differs from what is expected; empty if it does not."""
    if not cell.is_played or (cell.seen == cell.expected and not cell.problem):
        return ""
    parts = [
        f"{name}: {getattr(cell.seen, name)!r} and not {getattr(cell.expected, name)!r}"
        for name in Cell.__dataclass_fields__
        if getattr(cell.seen, name) != getattr(cell.expected, name)
    ]
    return "; ".join([*parts, *([f"({cell.problem})"] if cell.problem else [])])
