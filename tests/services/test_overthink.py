"""Channels with ``overthink``: what nobody has asked for is silent until an answer is sure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from swarm.domain.answers.agents import OnRestart
from swarm.domain.answers.events import Asked, Broken, Finished, Interrupted, TextDelta
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS, FinishOutcome
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import AuthorKind, SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.access import Person
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.services.work.fencing import ThreadReference
from tests.support.live import FakeLive, Gate, Scripted, Show, ends, hired, playing, says
from tests.support.policies import governing
from tests.support.streams import begun_for
from tests.support.tasks import hand, owner_of, status_of, work_of
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, delete, edit, holding, said

pytestmark = pytest.mark.req("CHAN-02")

CHECK, EYES = "white_check_mark", "eyes"
QUESTION = "How do I get a token?"


@pytest.fixture
def qa(world: World) -> World:
    """A coordinator with a Q&A channel."""
    policy = ChannelPolicy(listen=Listen.ALL, overthink=True, allowed_bots=frozenset({"B9"}))
    return world.governed_by(governing(channels={"C1": policy}))


async def nothing(world: World) -> None:
    """Slack has not been called, and will not be."""
    assert await world.rows("SELECT kind, text FROM deliveries") == []


async def silent_end(world: World, message: SlackMessage) -> tuple[InboxStatus, str | None, str]:
    """The status of a message, the owner of its thread, and how its silent run ended, once it has."""

    async def look() -> list[str]:
        rows = await world.rows(
            "SELECT change FROM history WHERE change >= 'silence.' AND change < 'silence~' ORDER BY seq"
        )
        return [row["change"].removeprefix("silence.") for row in rows]

    (end,) = await wait_until(look, lambda found: len(found) == 1, what="the run has ended silently")
    return (await world.inbox_message(message)).status, await owner_of(world, message), end


async def shown_posts(world: World) -> list[str]:
    """What people see after everything has been sent."""
    await world.send()
    return world.slack.posts


def quiet(show: Show) -> bool:
    return not show.live.calls and not show.live.statuses


# Agents that the coordinator runs


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("[DEFER]", "deferred"),
        ("Ask Bob. [defer]", "deferred"),
        ("[LOW_CONFIDENCE]\nPerhaps in the wiki.", "low_confidence"),
        ("Perhaps in the wiki.\n\n[LOW_CONF\u200bIDENCE]", "low_confidence"),
    ],
)
async def test_an_answer_that_is_marked_is_not_shown_and_the_thread_is_left_alone(
    qa: World, text: str, end: str
) -> None:
    async with playing(qa, hired("ada", Scripted(says(text))), stop_button_seconds=0) as show:
        with capture_logs() as logs:
            root = await qa.says(QUESTION)
            await show.over(root)
            outcomes = await wait_until(
                lambda: asyncio.sleep(0, [line["outcome"] for line in logs if line["event"] == "a run has ended"]),
                what="the end is in the log",
            )
        assert outcomes == ["Withheld"], "as it was judged"
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, end)
        await qa.sweep()
        await qa.says("Never mind, found it.", thread=root)
        assert len(await show.runs(root)) == 1
        assert quiet(show)
    await nothing(qa)


async def test_markers_in_several_pieces_and_in_a_final_result_count(qa: World) -> None:
    ada = Scripted(ends(TextDelta(text="It is [LOW_", message_id="1"), Finished(result="It is [LOW_CONFIDENCE] blue.")))
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, "low_confidence")
        assert quiet(show)
    await nothing(qa)


async def test_a_sure_answer_is_one_post_and_the_thread_goes_on_as_usual(qa: World) -> None:
    gate = Gate(before="In the portal, [CONFIDENCE: high]", after="under *Tokens*.")
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada), stop_button_seconds=0) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await nothing(qa)
        assert quiet(show)
        gate.opened.set()
        (run,) = await show.over(root)
        assert (run.status, ada.inputs[0].client_context["overthink"]) == (RunStatus.ANSWERED, True)
        assert await silent_end(qa, root) == (InboxStatus.RESPONDED, run.agent_id, "answered")
        await qa.send()
        (post,) = [sent for sent in qa.slack.landed if sent.kind == "post"]
        assert post.text == "In the portal, under *Tokens*."
        assert post.closing
        assert post.closing.feedback
        assert post.closing.footer
        assert qa.slack.reactions == [(root.ts, CHECK)]
        assert quiet(show)
        more = await qa.says("And then?", thread=root)
        await show.over(root, 2)
        assert show.live.of(root)
        await qa.send()
        assert (more.ts, EYES) in qa.slack.reactions
        assert "overthink" not in ada.inputs[1].client_context


async def test_a_failure_is_silent_and_has_no_button(qa: World) -> None:
    async with playing(qa, hired("ada", Scripted(ends(Broken(reason="it broke"))))) as show:
        root = await qa.says(QUESTION)
        assert await silent_end(qa, root) == (InboxStatus.DEAD, None, "failed")
        assert quiet(show)
    await nothing(qa)


async def test_a_question_to_people_is_not_asked(qa: World) -> None:
    ask = ends(TextDelta(text="Which one?"), Interrupted(asked=(Asked(id="1", prompt="Which one?"),)))
    async with playing(qa, hired("ada", Scripted(ask))) as show:
        root = await qa.says(QUESTION)
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, "deferred")
        assert quiet(show)
        assert await qa.rows("SELECT 1 FROM requests") == []
    await nothing(qa)


async def test_a_later_mention_is_an_ordinary_run_that_is_told_of_the_silence(qa: World) -> None:
    ada = Scripted()
    ada.scripts += [says("[DEFER]"), ends(Broken(reason="it broke")), says("Perhaps."), says("Sure.")]
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await silent_end(qa, root)
        mention = await qa.says(f"{BOT} please try anyway", thread=root)
        await show.over(root, 2)
        await qa.send()
        assert (mention.ts, EYES) in qa.slack.reactions
        assert show.live.statuses
        await qa.says(f"{BOT} again", thread=root)
        await show.over(root, 3)
        await qa.says("thanks", thread=root)
        await show.over(root, 4)
    first, failed, again, after = ada.inputs
    assert first.client_context["overthink"] is True
    assert "humble_followup" not in first.client_context
    for run in (failed, again):  # until somebody gets an answer
        assert (run.client_context["humble_followup"], "overthink" in run.client_context) == (True, False)
    assert not {"humble_followup", "overthink"} & after.client_context.keys()


async def test_a_mention_during_the_silent_run_is_answered_and_the_silent_run_stays_silent(qa: World) -> None:
    gate = Gate(before="Hm. ", after="[DEFER]")
    ada = Scripted(says("Here you are."))
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        mention = await qa.says(f"{BOT} any idea?", thread=root)
        gate.opened.set()
        await show.over(root, 2)
        await qa.send()
        assert [shown.text for shown in show.live.of(root)] == ["Here you are."]
        assert qa.slack.posts == []
        assert qa.slack.reactions == [(mention.ts, EYES), (mention.ts, CHECK)]
        assert ada.inputs[1].client_context["humble_followup"] is True
        assert await owner_of(qa, root) == (await show.agent("ada")).id


async def test_a_follow_up_of_a_silent_run_is_silent_too(qa: World) -> None:
    gate = Gate(before="", after="[DEFER]")
    ada = Scripted(says("[LOW_CONFIDENCE] hm"))
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await qa.says("It is for the API.", thread=root, by="U2")
        gate.opened.set()
        await show.over(root, 2)
        assert [run.client_context.get("overthink") for run in ada.inputs] == [True, True]
        assert quiet(show)
        assert await owner_of(qa, root) is None
    await nothing(qa)


async def test_a_stop_of_a_silent_run_is_silent(qa: World) -> None:
    gate = Gate(before="Some ", after="words.")
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada), stop_button_seconds=0) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await qa.says("!stop", thread=root)
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, "stopped")
        assert quiet(show)
    await nothing(qa)


async def test_a_deleted_message_ends_its_silent_run_without_a_word(qa: World) -> None:
    gate = Gate(before="Some ", after="words.")
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await qa.ingest.handle(delete(root))
        (run,) = await show.over(root)
        assert run.status is RunStatus.STOPPED
        assert quiet(show)
    await nothing(qa)


async def test_an_edit_is_silent_and_an_edit_that_adds_a_mention_gets_an_answer(qa: World) -> None:
    gate = Gate(before="", after="[DEFER]")
    ada = Scripted(says("As well as I can: in the portal."))
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        changed = edit(root, f"{QUESTION} Please.")
        await qa.ingest.handle(changed)
        await nothing(qa)
        await qa.ingest.handle(edit(changed.message, f"{BOT} {QUESTION}"))
        gate.opened.set()
        await show.over(root, 2)
        await qa.send()
        assert [shown.text for shown in show.live.of(root)] == ["As well as I can: in the portal."]
        assert qa.slack.reactions == [(root.ts, EYES), (root.ts, CHECK)]
        assert ada.inputs[1].client_context["humble_followup"] is True


async def test_a_mention_added_after_the_silent_end_brings_the_message_back(qa: World) -> None:
    ada = Scripted(says("In the portal."))
    ada.scripts.append(says("[DEFER]"))
    async with playing(qa, hired("ada", ada)) as show:
        root = await qa.says(QUESTION)
        await silent_end(qa, root)
        await qa.ingest.handle(edit(root, f"{BOT} {QUESTION}"))
        await show.over(root, 2)
        assert [shown.text for shown in show.live.of(root)] == ["In the portal."]
        assert await owner_of(qa, root) == (await show.agent("ada")).id


async def test_a_bots_post_is_answered_only_if_the_agent_is_sure(qa: World) -> None:
    policy = ChannelPolicy(listen=Listen.BOTS, overthink=True, allowed_bots=frozenset({"B9"}))
    alerts = qa.governed_by(governing(channels={"C1": policy}))
    ada = Scripted()
    async with playing(alerts, hired("ada", ada)) as show:
        ada.result = Finished(result="[LOW_CONFIDENCE] The disk?")
        unsure = await alerts.hears(said("Disk full", by="B9", kind=AuthorKind.BOT))
        assert await silent_end(alerts, unsure) == (InboxStatus.DISMISSED, None, "low_confidence")
        await nothing(alerts)
        ada.result = Finished(result="It is the log of web-1.")
        sure = await alerts.hears(said("Disk full", by="B9", kind=AuthorKind.BOT))
        await show.over(sure)
        assert await shown_posts(alerts) == ["It is the log of web-1."]
        assert alerts.slack.reactions == [(sure.ts, CHECK)]


@pytest.mark.both_engines
async def test_a_process_that_dies_in_a_silent_run_leaves_no_trace_and_another_runs_it_again_once(qa: World) -> None:
    gate = Gate(before="Some ", after="words.")
    ada = Scripted(says("[DEFER]"))
    ada.scripts.append(gate)
    live = FakeLive()
    async with playing(qa, hired("ada", ada), live=live) as first:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await first.deposed()
        first.begin()
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, "deferred")
        assert [run.status for run in await first.runs(root)] == [RunStatus.ABANDONED, RunStatus.ANSWERED]
        assert (len(ada.inputs), live.calls, live.statuses) == (2, [], {})
    await nothing(qa)


async def test_an_agent_that_must_not_run_again_leaves_no_trace_either(qa: World) -> None:
    gate = Gate(before="Some ", after="words.")
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(qa, hired("ada", ada, on_restart=OnRestart.ASK)) as show:
        root = await qa.says(QUESTION)
        await gate.arrived.wait()
        await show.deposed()
        show.begin()
        assert await silent_end(qa, root) == (InboxStatus.DEAD, None, "failed")
        assert quiet(show)
    await nothing(qa)


# Polling agents


async def asked_in_silence(world: World) -> tuple[Agent, SlackMessage, Trigger]:
    lead = await world.lead()
    root = await world.says(QUESTION)
    return lead, root, await world.only(lead)


async def test_a_polling_agent_is_told_that_nobody_has_asked(qa: World) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    assert (trigger.overthink, trigger.humble_followup) == (True, False)
    assert "[DEFER]" in trigger.prompt
    assert "[LOW_CONFIDENCE]" in trigger.prompt
    await qa.services.replies.dismiss(holding(trigger, lead), trigger.id, "smalltalk")
    assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, "deferred")
    await nothing(qa)
    await qa.says(f"{BOT} well?", thread=root)
    later = await qa.only(lead)
    assert (later.overthink, later.humble_followup) == (False, True)
    assert "stayed silent" in later.prompt
    assert "[DEFER]" not in later.prompt


@pytest.mark.parametrize(
    ("text", "end"), [("[DEFER]", "deferred"), ("In the wiki? [LOW_CONFIDENCE]", "low_confidence")]
)
async def test_a_marked_reply_is_withheld(qa: World, text: str, end: str) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    replied = await qa.services.replies.reply(holding(trigger, lead), trigger.id, text)
    assert replied == {"delivery_ids": [], "status": "dismissed"}
    assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, end)
    await qa.says("Thanks, Bob!", thread=root)
    assert await qa.poll(lead) == []
    await nothing(qa)


async def test_a_sure_reply_is_shown_without_its_markers(qa: World) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    await nothing(qa)
    await qa.answers(lead, trigger, "In the portal. [CONFIDENCE: 0.9]")
    assert (await shown_posts(qa), qa.slack.reactions) == (["In the portal."], [(root.ts, CHECK)])
    assert await owner_of(qa, root) == lead.id
    more = await qa.says("And then?", thread=root)
    await qa.send()
    assert (more.ts, EYES) in qa.slack.reactions
    assert not (await qa.only(lead)).overthink


async def fails_often(world: World, lead: Agent, trigger: Trigger) -> None:
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.FAILED, "no")
        await world.later(60)
        trigger = next(iter(await world.poll(lead)), trigger)


async def falls_silent_often(world: World, lead: Agent, trigger: Trigger) -> None:
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        await world.later(70)
        await world.is_here(lead)
        await world.poll(lead)


async def dismisses(world: World, lead: Agent, trigger: Trigger) -> None:
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "smalltalk")


@pytest.mark.parametrize(
    ("does", "ended"),
    [
        (fails_often, (InboxStatus.DEAD, None, "failed")),
        (falls_silent_often, (InboxStatus.DEAD, None, "failed")),
        (dismisses, (InboxStatus.DISMISSED, None, "deferred")),
    ],
)
async def test_whatever_a_polling_agent_does_without_an_answer_is_silent(
    qa: World, does: Callable[[World, Agent, Trigger], Awaitable[None]], ended: tuple[InboxStatus, str | None, str]
) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    await does(qa, lead, trigger)
    assert await silent_end(qa, root) == ended
    await qa.sweep()
    await nothing(qa)


async def test_nobody_online_is_no_news_in_a_silent_thread_but_is_told_to_who_asks(qa: World) -> None:
    lead = await qa.lead(online=False)
    root = await qa.says(QUESTION)
    await qa.later(200)
    await qa.sweep()
    await nothing(qa)
    await qa.says(f"{BOT} hello?", thread=root)
    (text,) = await shown_posts(qa)
    assert "queued" in text
    assert len((await qa.only(lead)).inbox_messages) == 2


async def test_a_redriven_silent_message_is_still_silent(qa: World) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    await fails_often(qa, lead, trigger)
    await qa.services.inbox.redrive((await qa.inbox_message(root)).id)
    again = await qa.only(lead)
    assert again.overthink
    await nothing(qa)
    await qa.answers(lead, again, "In the portal.")
    assert (await shown_posts(qa), await owner_of(qa, root)) == (["In the portal."], lead.id)


async def test_people_are_not_asked_and_get_no_file_in_a_silent_thread(qa: World) -> None:
    lead, _, trigger = await asked_in_silence(qa)
    with pytest.raises(Conflict, match="Nobody has asked in this thread"):
        await qa.services.uploads.upload_content(
            holding(trigger, lead), ThreadReference(inbox_message_id=trigger.id), "a.txt", b"a"
        )
    await nothing(qa)


@pytest.mark.parametrize(("text", "end"), [("[DEFER]", "deferred"), ("Perhaps [LOW_CONFIDENCE]", "low_confidence")])
async def test_a_marked_stream_is_withheld(qa: World, text: str, end: str) -> None:
    async with playing(qa) as show:
        lead, root, trigger = await asked_in_silence(qa)
        writing = await begun_for(qa, lead, root, trigger)
        await writing.append("Well, ")
        await writing.close(text)
        await writing.ended()
        assert await silent_end(qa, root) == (InboxStatus.DISMISSED, None, end)
        assert quiet(show)
    await nothing(qa)


async def test_a_sure_stream_is_shown_once_it_is_closed(qa: World) -> None:
    async with playing(qa) as show:
        lead, root, trigger = await asked_in_silence(qa)
        writing = await begun_for(qa, lead, root, trigger)
        await writing.append("In the ")
        assert show.running.runs(writing.run_id) or quiet(show)
        await nothing(qa)
        await writing.close("portal.")
        await writing.ended()
        posts = await shown_posts(qa) or [shown.text for shown in show.live.of(root)]
        assert (posts, qa.slack.reactions) == (["In the portal."], [(root.ts, CHECK)])


async def test_a_failed_stream_and_one_whose_agent_falls_silent_are_silent(qa: World) -> None:
    async with playing(qa) as show:
        lead, root, trigger = await asked_in_silence(qa)
        writing = await begun_for(qa, lead, root, trigger)
        await writing.append("Some words.")
        await qa.later(70)
        await writing.ended()
        await qa.is_here(lead)
        again = await begun_for(qa, lead, root, await qa.only(lead))
        await again.close(failed="the model is away")
        await again.ended()
        assert await silent_end(qa, root) == (InboxStatus.DEAD, None, "failed")
        assert quiet(show)
    await nothing(qa)


# Tasks


async def test_a_task_of_a_silent_thread_is_silent_until_its_reply(qa: World) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    worker = await qa.worker()
    task_id = await hand(qa, lead, trigger, worker)
    run = await work_of(qa, worker)
    assert run.overthink
    await qa.services.task_work.progress(holding(run, worker), task_id, "Looking", 50)
    await nothing(qa)
    await qa.services.task_work.complete(holding(run, worker), task_id, "portal", "In the portal.")
    assert (await shown_posts(qa), qa.slack.reactions) == (["In the portal."], [(root.ts, CHECK)])
    assert await owner_of(qa, root) == lead.id


async def test_a_lead_that_answers_with_the_result_of_a_silent_task_is_judged(qa: World) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    worker = await qa.worker()
    task_id = await hand(qa, lead, trigger, worker)
    run = await work_of(qa, worker)
    await qa.services.task_work.complete(holding(run, worker), task_id, "portal")
    (notice,) = await qa.poll(lead)
    assert notice.overthink
    await nothing(qa)
    replies = qa.services.replies
    assert (await replies.reply_to_task(holding(notice, lead), task_id, "[DEFER]"))["delivery_ids"] == []
    await nothing(qa)
    await replies.reply_to_task(holding(notice, lead), task_id, "In the portal.")
    assert (await shown_posts(qa), qa.slack.reactions) == (["In the portal."], [(root.ts, CHECK)])


async def fails(world: World, worker: Agent, run: Trigger, task_id: str) -> None:
    await world.services.task_work.fail(holding(run, worker), task_id, "no idea", "I have no idea.")


async def is_cancelled(world: World, worker: Agent, run: Trigger, task_id: str) -> None:
    await world.services.tasks.cancel(None, task_id)


@pytest.mark.parametrize(("does", "end"), [(fails, "failed"), (is_cancelled, "stopped")])
async def test_a_task_that_fails_in_a_silent_thread_shows_nothing(
    qa: World, does: Callable[[World, Agent, Trigger, str], Awaitable[None]], end: str
) -> None:
    lead, root, trigger = await asked_in_silence(qa)
    worker = await qa.worker()
    task_id = await hand(qa, lead, trigger, worker)
    await does(qa, worker, await work_of(qa, worker), task_id)
    assert await status_of(qa, task_id) in (TaskStatus.FAILED, TaskStatus.CANCELLED)
    assert await silent_end(qa, root) == (InboxStatus.DELEGATED, None, end)
    await nothing(qa)


# Refusals


async def test_who_may_not_write_to_the_swarm_hears_nothing_where_nobody_asks(qa: World) -> None:
    qa.slack.persons["U2"] = Person(id="U2", name="bob", teams=("T1",), is_guest=True)
    await qa.lead()
    await qa.says(QUESTION, by="U2")
    await nothing(qa)
    await qa.says(f"{BOT} {QUESTION}", by="U2")
    (text,) = await shown_posts(qa)
    assert "guest" in text
