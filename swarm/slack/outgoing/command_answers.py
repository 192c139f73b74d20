"""The blocks of what one person sees: answers to the slash command, and the Home tab.

Names, titles and descriptions are shown as they are, without markup and mentions (`block_parts.word`).
https://docs.slack.dev/interactivity/implementing-slash-commands#responding_to_commands
https://docs.slack.dev/surfaces/app-home
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from swarm.domain.commands import (
    AgentCard,
    AgentList,
    ChannelListening,
    CommandAnswer,
    CommandHelp,
    CommandRefused,
    DecisionWanted,
    Explanation,
    HomeContent,
    OpenWork,
    RemarkStored,
    RemarkWanted,
    StopChoice,
    Subcommand,
    SwarmCondition,
    WorkList,
    WorkState,
    WorkStopped,
)
from swarm.domain.model.agents import Role
from swarm.domain.policy.channels import Listen
from swarm.domain.requests.button_actions import REMARK_FORM, STOP_OWN_ACTION, STOP_TASK_ACTION
from swarm.domain.text.slack_text import mentioned_ids, safe
from swarm.slack.outgoing.block_parts import (
    MAX_SECTION_CHARACTERS,
    Block,
    button,
    context,
    cut,
    date,
    plain,
    section,
    word,
)
from swarm_base.times import span

MOST_LISTED: Final = 20
"""The maximum number of lines of a list; a message has at most 50 blocks, a Home tab 100."""

_STATES: Final[Mapping[WorkState, str]] = {
    WorkState.QUEUED: "waits for an agent",
    WorkState.RUNNING: "is being worked on",
    WorkState.ASKING: "waits for a decision",
    WorkState.BLOCKED: "waits for other tasks",
}
_LISTENS: Final[Mapping[Listen, str]] = {
    Listen.MENTION: "answers mentions, and what is written in its threads",
    Listen.ALL: "answers every new message",
    Listen.BOTS: "answers posts of bots, and mentions",
    Listen.ALERTS: "explains alerts, and answers mentions",
}
_NO_LEAD_TEXT: Final = "No lead is registered, so messages wait."
_HOW_TO_START: Final = (
    "*How to start:* write to me in Messages, or mention me in a channel. Go on in the thread; "
    "no mention is needed there. `swarm#name` addresses one agent, and `!stop` stops what runs or waits in a thread."
)


def message_of(answer: CommandAnswer) -> Block:
    """Returns an answer as a message that only the person sees: ``response_type``, ``text`` and, for lists,
    ``blocks``.
    """
    text, blocks = _drawn(answer)
    shown: Block = {"response_type": "ephemeral", "text": cut(text, MAX_SECTION_CHARACTERS)}
    return shown | {"blocks": blocks} if blocks else shown


def text_message(text: str) -> Block:
    """Returns a text as a message that only the person sees."""
    return {"response_type": "ephemeral", "text": safe(text)}


def _drawn(answer: CommandAnswer) -> tuple[str, list[Block]]:
    match answer:
        case CommandRefused():
            return safe(answer.reason), []
        case CommandHelp():
            return _help(answer), []
        case SwarmCondition():
            return _condition(answer), []
        case AgentList():
            return _agents(answer)
        case WorkList():
            return _tasks(answer)
        case StopChoice():
            return _choice(answer)
        case WorkStopped():
            return _stopped(answer), []
        case Explanation():
            return _explanation(answer), []
        case RemarkWanted():
            return "Write your remark in the form.", []
        case RemarkStored():
            return "Thank you. Your remark is stored.", []
        case _:
            assert_never(answer)


def _help(answer: CommandHelp) -> str:
    command = word(answer.command, 40)
    unknown = [f"There is no “{command} {word(answer.unknown, 40)}”."] if answer.unknown else []
    return "\n".join(
        [
            *unknown,
            "*What you can do*",
            "Mention me in a channel, or write to me directly. Go on in the thread; no mention is needed there.",
            "`swarm#name` in a message addresses one agent, `swarm#all` all; `!stop` stops what runs or waits in it.",
            *(f"`{f'{command} {one} {one.argument}'.rstrip()}`: {one.purpose}" for one in Subcommand),
        ]
    )


def remark_form(wanted: RemarkWanted) -> Block:
    """Returns the form for a remark."""
    element = {
        "type": "plain_text_input",
        "action_id": REMARK_FORM,
        "multiline": True,
        "max_length": MAX_SECTION_CHARACTERS,
    }
    return {
        "type": "modal",
        "callback_id": REMARK_FORM,
        "private_metadata": wanted.channel,
        "title": plain("Feedback", 24),
        "submit": plain("Send", 24),
        "close": plain("Cancel", 24),
        "blocks": [
            {
                "type": "input",
                "block_id": REMARK_FORM,
                "label": plain("What do you think about the swarm?", 150),
                "hint": plain("The people who run it read this. Rate single answers with 👍 and 👎 below them.", 150),
                "element": element,
            }
        ],
    }


# --- status, agents


def _condition(answer: SwarmCondition) -> str:
    waits = _waiting(answer.inbox_unread, answer.oldest_unread_seconds)
    return "\n".join(
        [
            f"*{_health(answer.agents)}*",
            f"Agents: {_presence(answer.agents)}.",
            f"{waits} Open tasks: {answer.tasks_open}.",
            _here(answer.here),
        ]
    )


def _health(agents: Sequence[AgentCard]) -> str:
    if not agents:
        return "No agent is registered yet."
    if not any(agent.online for agent in agents):
        return "No agent is online, so messages wait."
    if not any(agent.online and agent.role is Role.LEAD for agent in agents):
        return "No lead is online, so messages without an address wait."
    return "Everything is running."


def _presence(agents: Sequence[AgentCard]) -> str:
    groups = [("online", [agent for agent in agents if agent.online])]
    groups.append(("offline", [agent for agent in agents if not agent.online]))
    return ", ".join(f"{len(found)} {how}{_named(found)}" for how, found in groups)


def _named(agents: Sequence[AgentCard]) -> str:
    names = [agent.name for agent in agents[:MOST_LISTED]]
    return f" ({', '.join(names)}{', …' if len(agents) > len(names) else ''})" if names else ""


def _waiting(unread: int, oldest_seconds: int) -> str:
    if not unread:
        return "Nothing is waiting."
    messages = "1 message waits" if unread == 1 else f"{unread} messages wait"
    return f"{messages}, the oldest for {span(oldest_seconds)}."


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _here(here: ChannelListening) -> str:
    if not here.is_visible:
        return "Here: I cannot see this conversation."
    if here.agent is None:
        return f"Here: {_NO_LEAD_TEXT}"
    listens = "answers every message" if here.is_direct else _LISTENS[here.listen]
    offline = "" if here.online else ", but is offline now"
    return f"Here: *{here.agent}* {listens}{offline}."


def _agents(answer: AgentList) -> tuple[str, list[Block]]:
    if not answer.agents:
        return "There is no agent that you may use here.", []
    footer = "Write `swarm#name` in a message to address one agent. Without a name, the channel's agent answers."
    lines = [_agent(agent) for agent in answer.agents]
    return "\n".join(lines), [*_sections(lines), context(footer)]


def _agent(agent: AgentCard) -> str:
    presence = "online" if agent.online else "offline"
    if agent.parked_seconds:
        presence += f", its account's limit is reached for {span(agent.parked_seconds)}"
    load = [_counted(count, what) for count, what in _loads(agent) if count]
    facts = " · ".join([agent.role.value, presence, *load])
    description = f"\n{word(agent.description, 300)}" if agent.description.strip() else ""
    return f"*{agent.name}* · {facts} · `swarm#{agent.name}`{description}"


def _loads(agent: AgentCard) -> tuple[tuple[int, str], ...]:
    return (agent.load.running, "run"), (agent.load.open_tasks, "open task")


# --- tasks, stop


def _tasks(answer: WorkList) -> tuple[str, list[Block]]:
    if not answer.own and not answer.others:
        return "Nothing of yours is open, and there are no tasks here.", []
    own = _listed(answer.own, answer.channel) or [section("None.")]
    others = _listed(answer.others, answer.channel)
    blocks = [section("*Your open work*"), *own, *([section("*Other open tasks here*"), *others] if others else [])]
    titles = [word(work.title) for work in (*answer.own, *answer.others)]
    return f"Open work: {', '.join(titles)}", blocks


def _listed(works: Sequence[OpenWork], channel: str) -> list[Block]:
    """Returns a line for each task, with a Stop button where the task's thread is in this channel."""
    lines = [
        section(_line(work))
        | ({"accessory": _stop_task(work.task_id)} if work.channel == channel and work.task_id else {})
        for work in works[:MOST_LISTED]
    ]
    return [*lines, *_more(works)]


def _stop_task(task_id: str) -> Block:
    return button(STOP_TASK_ACTION, "Stop", task_id)


def _line(work: OpenWork) -> str:
    agent = f" · {work.agent}" if work.agent else ""
    title = word(work.title) or "(no text)"
    return f"<{work.link}|{title}>\n{_STATES[work.state]}{agent} · since {date(work.since)}"


def _more(items: Sequence[object]) -> list[Block]:
    return [context(f"and {len(items) - MOST_LISTED} more")] if len(items) > MOST_LISTED else []


def _choice(answer: StopChoice) -> tuple[str, list[Block]]:
    heading = "You have several things running. Stop which?"
    lines = [
        section(_line(work)) | {"accessory": button(STOP_OWN_ACTION, "Stop", work.thread_id)}
        for work in answer.work[:MOST_LISTED]
    ]
    return heading, [section(heading), *lines, *_more(answer.work)]


def _stopped(answer: WorkStopped) -> str:
    return "I am stopping it." if answer.stopped else "Nothing of yours is running or waiting here."


def _explanation(answer: Explanation) -> str:
    heading = [f"<{answer.link}|This message>"] if answer.link else []
    return "\n".join([*heading, *(safe(line, mentioned_ids(line)) for line in answer.lines)])


# --- The Home tab


def home_view(content: HomeContent) -> Block:
    """Returns the Home tab of a person."""
    blocks = [section(safe(content.refused))] if content.refused else _home_blocks(content)
    return {"type": "home", "blocks": blocks}


def _home_blocks(content: HomeContent) -> list[Block]:
    decisions = [section(_decision(one)) for one in content.decisions[:MOST_LISTED]]
    work = [section(_line(one)) for one in content.work[:MOST_LISTED]]
    agents = _sections([_agent(agent) for agent in content.agents])
    return [
        {"type": "header", "text": plain("Hello!", 150)},
        section("I am a team of agents. Here is what you have asked us for, and what waits for you."),
        *_part("Mistakes in the settings", _sections(map(safe, content.mistakes)), ()),
        *_part("Waiting for your decision", decisions, content.decisions),
        *(_part("Your open work", work, content.work) or _part("Your open work", [section("Nothing is open.")], ())),
        *_part("Agents", agents, ()),
        {"type": "divider"},
        section(_HOW_TO_START),
    ]


def _part(title: str, blocks: list[Block], items: Sequence[object]) -> list[Block]:
    return [{"type": "divider"}, section(f"*{title}*"), *blocks, *_more(items)] if blocks else []


def _decision(wanted: DecisionWanted) -> str:
    title = word(wanted.title) or "(no title)"
    linked = f"<{wanted.link}|{title}>" if wanted.link else title
    return f"{linked}\n{wanted.agent} asks · since {date(wanted.since)}"


def _sections(lines: Iterable[str]) -> list[Block]:
    """Returns lines as few sections, none longer than Slack allows."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + len(line) + 1 <= MAX_SECTION_CHARACTERS:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return [section(text) for text in texts[:MOST_LISTED]]
