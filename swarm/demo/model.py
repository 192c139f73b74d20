"""The demo's model: rules in place of a language model, and it says so.

It knows what it is asked for by what it is told and offered, as a model would: a router by its decisions to choose
from, the wording of results and summaries by the data they come with, and everything else is an assistant's.
"""

from __future__ import annotations

import re
from typing import Final

from swarm.demo import assistant_rules, router_rules
from swarm.demo.asked import Asked, Reply, Text
from swarm.demo.memory import summary

_CONVERSATION: Final = "The conversation"
"""The title of what is to be summarised."""

_ONE_WORD: Final = re.compile(r"\bsingle word (\w+)", re.IGNORECASE)


def reply(asked: Asked) -> Reply:
    """What the model answers; it always answers something."""
    if router_rules.REFUSE in asked.tools:
        return router_rules.decide(asked)
    if not asked.tools and router_rules.RESULTS in asked.data:
        return router_rules.word(asked)
    if not asked.tools and _CONVERSATION in asked.data:
        return Text(text=summary(asked.data[_CONVERSATION]))
    if word := _ONE_WORD.search(asked.last):
        return Text(text=word[1])
    return assistant_rules.answer(asked)
