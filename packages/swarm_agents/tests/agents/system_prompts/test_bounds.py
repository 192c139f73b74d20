"""Hostile and broken templates: each is stopped, and its name and line are told."""

from __future__ import annotations

import asyncio
import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packages.swarm_agents.tests.agents.system_prompts import corpus
from swarm_agents.system_prompts.files import PromptError, Template
from swarm_agents.system_prompts.renderer import Renderer
from tests.support.quick import quick

pytestmark = [
    pytest.mark.req("AGENT-08"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("prompts"),
]

NAME = "prompts/hostile.md.j2"
VARIABLES = {"user": {"name": "Ada"}, "client_context": {"source": "slack"}}
TOGETHER = {**corpus.GREEDY, **corpus.FORBIDDEN, **corpus.WRONG}
BY_KIND = sorted(
    TOGETHER, key=lambda name: name in {reasons: name for name, (_, reasons) in TOGETHER.items()}.values()
)[::-1]
"""One of each kind of refusal first."""
KINDS = len({reasons for _, reasons in TOGETHER.values()})


async def refused(renderer: Renderer, text: str, name: str = NAME) -> PromptError:
    with pytest.raises(PromptError) as caught:
        await renderer.render(Template(name=name, text=text), VARIABLES)
    return caught.value


@pytest.mark.parametrize("text", quick(corpus.ENDLESS.values(), 2), ids=corpus.ENDLESS.keys())
async def test_what_never_ends_is_stopped_with_its_line(impatient: Renderer, text: str) -> None:
    error = await refused(impatient, text)
    assert (error.name, error.line, error.problem) == (NAME, 2, "it takes longer than 0.4 s")
    assert error.message == f"The prompt {NAME}, line 2 cannot be rendered: it takes longer than 0.4 s."


@pytest.mark.parametrize(("text", "reasons"), quick(map(TOGETHER.__getitem__, BY_KIND), KINDS), ids=BY_KIND)
async def test_what_takes_too_much_or_is_wrong_is_refused_with_its_line(
    renderer: Renderer, usual: Renderer, text: str, reasons: str | tuple[str, ...]
) -> None:
    error = await refused(usual if corpus.TIME in reasons else renderer, text)
    assert (error.name, error.line) == (NAME, 2), error.message
    assert any(reason in error.problem for reason in ((reasons,) if isinstance(reasons, str) else reasons))
    assert "\n" not in error.message


async def test_it_takes_less_than_two_seconds_with_the_limits_of_a_coordinator(usual: Renderer) -> None:
    await usual.check(Template(name="first", text="{{ 1 }}"))  # the process is there
    started = time.monotonic()
    texts = (corpus.ENDLESS["nested loops"], corpus.ENDLESS["an addition of many lists, in one call"])
    for error in await asyncio.gather(*(refused(usual, text) for text in texts)):
        assert (error.line, error.problem) == (2, "it takes longer than 1.4 s")
    assert time.monotonic() - started < 15  # without limits minutes; test_render_process.py adds the stages


async def test_a_template_that_takes_too_long_to_read_is_stopped_too(impatient: Renderer) -> None:
    error = await refused(impatient, "\n" + "{{a}}" * 50_000)
    assert (error.line, error.problem) == (2, "it takes longer than 0.4 s")


async def test_what_went_wrong_in_a_macro_has_the_macros_line(renderer: Renderer) -> None:
    error = await refused(renderer, "{% macro m() %}\n\n{{ 1 / 0 }}\n{% endmacro %}\n{{ m() }}")
    assert error.line == 3


async def test_after_every_attack_a_prompt_renders_as_ever(renderer: Renderer) -> None:
    texts = [text for text, _ in chain(corpus.GREEDY.values(), corpus.FORBIDDEN.values())][::6]
    plain = Template(name="plain", text="{{ user.name }}")
    hostile = asyncio.gather(*(refused(renderer, text) for text in texts))
    assert await renderer.render(plain, VARIABLES) == "Ada"
    await hostile
    assert await renderer.render(plain, VARIABLES) == "Ada"


PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " for a in ", "range(9)", " endfor ", " if ", "user", ".name", "|", "upper",
     "(", ")", "[", "]", "'", "\n", " set x = ", "1", "*", "**", "~", " macro m() ", " endmacro ", "self", "__class__"]
)  # fmt: skip


@given(pieces=st.lists(PIECES, max_size=20))
async def test_any_text_becomes_a_prompt_or_an_error_about_it(renderer: Renderer, pieces: list[str]) -> None:
    problems = []
    try:
        await renderer.render(Template(name=NAME, text="".join(pieces)), VARIABLES)
    except PromptError as error:
        problems.append(error)
    assert all(error.line for error in problems)
