"""What an agent reads of everything that people and bots send, and that they forward (the tables beside this file)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm.domain.model.threads import MessageEdited, SlackMessage
from swarm.domain.policy.access import Me
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.roster import Roster
from swarm.domain.routing import RoutingOutcome, Situation, decide
from swarm.domain.text.slack_text import readable
from swarm.slack.incoming.payloads import history_message, slack_event
from tests.support.every import every

pytestmark = pytest.mark.req("CHAN-13", "LOOP-02")

ME = Me(team="T1", user_id="UBOT", bot_id="BBOT")
SITUATION = Situation(me=ME, policy=ChannelPolicy(), roster=Roster(agents=()))
PERSON, BOT = {"user": "U1"}, {"bot_id": "B1", "subtype": "bot_message"}
PLACE = {"type": "message", "channel": "C1", "ts": "1700000000.000100", "channel_type": "channel"}
QUOTED = ("[forwarded", "[spoken", "[e-mail", "[pasted")


def table(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))


def content(case: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in case.items() if key not in ("source", "reads", "names", "elements")}
    return shown | ({"blocks": [{"type": "rich_text", "elements": case["elements"]}]} if "elements" in case else {})


def read(author: dict[str, Any] = PERSON, **sent: Any) -> SlackMessage:
    """The message of an event, which a history tells alike."""
    event = slack_event({"event": {**PLACE, **author, **sent}}, ME)
    assert isinstance(event, SlackMessage)
    assert event == history_message("C1", {**PLACE, **author, **sent}, ME)
    return event


def joined(*texts: str) -> str:
    return "\n".join(filter(None, texts))


CASES = {
    title: (content(case), case.get("reads", "").removesuffix("\n"), case.get("names", []))
    for name in ("blocks", "rich_text", "attachments", "files")
    for title, case in table(name).items()
    if case["source"]
}


@every(("sent", "reads", "names"), CASES.values(), ids=CASES)
def test_everything_is_read_of_people_and_bots_and_in_a_forward(
    sent: dict[str, Any], reads: str, names: list[str]
) -> None:
    for author in (PERSON, BOT):
        message = read(author, text="Look:", **sent)
        assert (message.text, [file.name for file in message.files]) == (joined("Look:", reads), names)
    inner = {"message_blocks": [{"message": sent}]} if "blocks" in sent else sent
    message = read(text="", attachments=[{"is_share": True, "author_name": "Bobby", "text": "Look:", **inner}])
    quoted = reads if reads.startswith(QUOTED) else ""
    body = joined(
        "Look:", reads.removesuffix(quoted), *(f"[file: {name}]" for name in names if "files" in sent), quoted
    )
    assert message.text == "\n".join(["[forwarded: Bobby]", *(f"&gt; {line}" for line in body.split("\n"))])
    assert (message.own_text, [file.name for file in message.files]) == ("", names)
    assert all(line.startswith("> ") for line in readable(message.text, {}).splitlines()[1:])


@every("case", table("differences"))
def test_where_text_and_blocks_differ_nothing_is_lost_or_said_twice(case: dict[str, Any]) -> None:
    assert read(**content(case)).text == case["reads"]


@every("sent", table("orders"))
def test_what_a_person_quotes_forwards_or_plays_commands_nobody(sent: dict[str, Any]) -> None:
    message = read(**sent)
    assert decide(message, SITUATION).outcome in (RoutingOutcome.CONTEXT, RoutingOutcome.UNVERIFIED)
    assert (message.own_text.strip(), "stop" in message.text) == ("see", True)


def test_every_subtype_is_content_of_its_own_or_of_slack() -> None:
    known = table("subtypes")
    for subtype in [*known["content"], *(one for line in known["system"] for one in line)]:
        message = read(text="words", subtype=subtype)
        is_system = decide(message, SITUATION).outcome is RoutingOutcome.SYSTEM
        assert (message.text, is_system) == ("words", subtype not in known["content"]), subtype
    for subtype in known["repeats"]:
        assert slack_event({"event": {**PLACE, **PERSON, "subtype": subtype}}, ME) is None


def test_the_preview_of_a_link_is_no_edit_even_beside_a_clip() -> None:
    clip = {**PLACE, **PERSON, "files": CASES["a voice clip"][0]["files"]}
    seen = {**clip, "attachments": [{"from_url": "https://x.test", "text": "x"}]}
    changed = {**PLACE, "subtype": "message_changed", "message": seen, "previous_message": clip}
    event = slack_event({"event": changed}, ME)
    assert isinstance(event, MessageEdited)
    assert event.message.edited_ts is None


def test_a_transcript_that_comes_late_changes_its_message_even_after_an_edit() -> None:
    clip = {**PLACE, **PERSON, "text": "Listen", "edited": {"user": "U1", "ts": "1700000005.000000"}}
    clip["files"] = CASES["a voice clip"][0]["files"]
    silent = {**clip, "files": [{"id": "F1", "subtype": "slack_audio", "transcription": {"status": "processing"}}]}
    changed = {**PLACE, "ts": "1700000009.000000", "subtype": "message_changed"}
    event = slack_event({"event": {**changed, "message": clip, "previous_message": silent}}, ME)
    assert isinstance(event, MessageEdited)
    assert event.message.edited_ts == "1700000009.000000"


@every("author", [{"author_subname": "Bobby"}, {"author_id": "Bobby"}, {"author_name": "Bobby", "author_id": "U2"}])
def test_a_forward_says_who_wrote_it_by_whatever_slack_tells(author: dict[str, str]) -> None:
    assert read(text="", attachments=[{"is_share": True, "text": "Hi", **author}]).text == "[forwarded: Bobby]\n&gt; Hi"
