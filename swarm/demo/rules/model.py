"""The demo's model: openly declared rules in place of a language model.

The rules infer the kind of request from its content and tools, as a model would: the router offers decisions as tools,
and requests to word results and to summarise carry marked data; all others are an assistant's.
"""

from __future__ import annotations

import re
from typing import Final

from swarm.demo.rules import assistant_rules, router_rules
from swarm.demo.rules.asked import Asked, Reply, Text
from swarm.demo.rules.memory import summary

_CONVERSATION: Final = "The conversation"
"""The title of a conversation to summarise."""

_ONE_WORD: Final = re.compile(r"\bsingle word (\w+)", re.IGNORECASE)


def reply(asked: Asked) -> Reply:
    """Returns the model's reply; there always is one."""
    if router_rules.REFUSE in asked.tools:
        return router_rules.decide(asked)
    if not asked.tools and router_rules.RESULTS in asked.data:
        return router_rules.word(asked)
    if not asked.tools and _CONVERSATION in asked.data:
        return Text(text=summary(asked.data[_CONVERSATION]))
    if word := _ONE_WORD.search(asked.last):
        return Text(text=word[1])
    return assistant_rules.answer(asked)
