"""The rules of the demo's model for an assistant: remembers, calculates, looks things up, and introduces itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from swarm.demo.rules.asked import Answered, Asked, Call, Calls, Reply, Text
from swarm.demo.rules.memory import known, remembered, told_now
from swarm.demo.rules.reading import from_documents, look_up
from swarm.demo.rules.router_rules import wanted
from swarm.demo.rules.sums import Language, is_number, language_of, sum_of, sums_in

WHAT_I_AM: Final = (
    "I am no language model, although I sit in the place of one: a small program that follows a few rules and speaks "
    "the protocol of a model, so that this demo needs neither a key nor a network. What is around me is real: the "
    "memory, the tools, the search. Set `LLM_MODEL` and a key, and a real model answers in my place."
)

_JOKES: Final = (
    "Why do programmers prefer dark mode?\nBecause light attracts bugs, and they have enough of those already.\n"
    "I would tell you one about UDP as well, but you might not get it.",
    "A queue walks into a bar and waits.\nWhoever came first is served first, and nobody finds that funny.\n"
    "Except the stack, which has been waiting since yesterday.",
    "How many schedulers does it take to change a light bulb?\nNone: the job is in the queue, with the right "
    "priority.\nIt will be dark until somebody renews the lease.",
)

_GREETING: Final = r"^(hello|hi|hey|good (morning|afternoon|evening)|hallo|bonjour|hola)\b"
_THANKS: Final = r"\b(thanks|thank you|thx|danke|merci|gracias)\b"
_WHO: Final = (
    r"\b(who|what) (exactly )?are you\b|\bare you (an?|real|really)\b|\b(what|which) (language )?model\b|real model"
)
_WEATHER: Final = r"\bweather\b|\bforecast\b|\bwill it rain\b|\bwetter\b"
_ENDLESS: Final = r"\b(search|look) (for ever|forever|endlessly|without end)\b"


def answer(asked: Asked) -> Reply:
    """Returns the next step: words, or calls of tools."""
    if re.search(_ENDLESS, asked.last, re.IGNORECASE) and "search" in asked.tools:
        return Calls(calls=(Call(tool="search", arguments={"query": f"attempt {len(asked.answered) + 1}"}),))
    if asked.answered:
        return _with_results(asked)
    for pattern, act in _RULES:
        if re.search(pattern, asked.last, re.IGNORECASE):
            return act(asked)
    return remembered(asked) or _calculated(asked) or _git(asked) or look_up(asked) or Text(text=abilities(asked))


def abilities(asked: Asked) -> str:
    """Lists the possible requests, which depend on the tools."""
    can = [
        "tell you a **joke**",
        "**remember** what you tell me about yourself: `my name is Ada`, later `what is my name?`",
    ]
    if sums_in("1 plus 1")[0].tool_in(asked.tools):
        can.append("**calculate**: `what is 6 times 7?`")
    if "search" in asked.tools:
        can.append("**look things up** in the documents: `what is agntcy`, `compare agntcy and caipe onboarding`")
    if "git" in asked.tools:
        can.append("show the **`git status`** of the work tree that I was given")
    listed = "\n".join(f"- {one}" for one in can)
    return f"I follow rules, and am no language model, so I understand little. I can\n\n{listed}"


def _with_results(asked: Asked) -> Reply:
    """Returns the step after tools have answered."""
    results = asked.answered
    tools = {result.call.tool for result in results}
    if tools <= {"search", "fetch_document"}:
        return from_documents(asked)
    if tools == {"git"}:
        return Text(text=f"This is what git says:\n\n```\n{results[-1].text.strip()}\n```")
    return Text(text="\n".join(_told(result, language_of(asked.last)) for result in results))


def _told(result: Answered, language: Language) -> str:
    of = sum_of(result.call.tool, result.call.arguments, language)
    text = result.text.strip()
    return of.told(text) if of and is_number(text) else language.result.format(result=text)


def _calculated(asked: Asked) -> Reply | None:
    sums = wanted(asked)
    calls = [call for each in sums if (call := each.call(asked.tools))]
    if calls and len(calls) == len(sums):
        return Calls(calls=tuple(calls))
    open_ones = [each for each in sums if each.tool_in(asked.tools) and not each.is_complete]
    return Text(text=open_ones[0].question) if open_ones else None


def _git(asked: Asked) -> Reply | None:
    if "git" not in asked.tools or not re.search(r"\bgit\b", asked.last, re.IGNORECASE):
        return None
    return Calls(calls=(Call(tool="git", arguments={"subcommand": "status"}),))


def _joke(asked: Asked) -> Reply:
    """Tells a different joke each time."""
    told = sum("joke" in heard.lower() for heard in asked.heard)
    return Text(text=_JOKES[(told - 1) % len(_JOKES)])


def _greet(asked: Asked) -> Reply:
    name = known(asked, "name")
    return told_now(asked) or Text(text=f"Hello{f' {name}' if name else ''}! {abilities(asked)}")


def _weather(asked: Asked) -> Reply:
    return Text(
        text="I cannot tell you that: none of my tools knows anything about the weather, and I do not guess.\n"
        "Ask me about what is in the documents, or for a sum, and I can help."
    )


_RULES: Final[Sequence[tuple[str, Callable[[Asked], Reply]]]] = (
    (_WHO, lambda asked: Text(text=WHAT_I_AM)),
    (r"\bjoke\b|\bwitz\b", _joke),
    (_WEATHER, _weather),
    (_GREETING, _greet),
    (_THANKS, lambda asked: Text(text="You are welcome.")),
    (r"^\W*(help|what can you do)\b", lambda asked: Text(text=abilities(asked))),
)
