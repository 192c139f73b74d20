"""What tools answer, in words for a model."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from swarm_agents.mcp.calls import MAX_CHARACTERS, answer_of

pytestmark = pytest.mark.req("AGENT-02")


def text_of(*content: types.ContentBlock, structured: Any = None) -> str:
    """The text of a result that is no failure."""
    answer = answer_of(types.CallToolResult(content=list(content), structured_content=structured))
    assert not answer.failed
    return answer.text


def words(text: str) -> types.TextContent:
    return types.TextContent(text=text)


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        (["3"], {"result": 3}),
        (["three"], {"result": "three"}),
        (['{"a": 1}'], {"a": 1}),
        (['{"a":\n1}'], {"result": {"a": 1}}),
        (["1", '"x"'], {"result": [1, "x"]}),
        (["one", "two"], {"result": ["one", "two"]}),
    ],
)
def test_structured_content_that_the_text_says_already_is_not_said_again(said: list[str], structured: Any) -> None:
    assert text_of(*map(words, said), structured=structured) == "\n".join(said)


def test_structured_content_that_the_text_does_not_say_is_added() -> None:
    assert text_of(structured={"a": "ü"}) == '{\n "a": "ü"\n}'
    assert text_of(words("Found one."), structured={"id": 7}) == 'Found one.\n{\n "id": 7\n}'


def test_what_cannot_be_read_is_named_with_its_kind_and_size() -> None:
    blob = types.BlobResourceContents(uri="file:///a.zip", mime_type="application/zip", blob="AAAA")
    assert text_of(
        types.ImageContent(data="AAAAAAAA", mime_type="image/png"),
        types.AudioContent(data="AAAA", mime_type="audio/wav"),
        types.EmbeddedResource(resource=blob),
    ) == (
        "[image, image/png, 6 bytes; it cannot be shown here]\n"
        "[audio, audio/wav, 3 bytes; it cannot be shown here]\n"
        "[resource: file:///a.zip, application/zip, 3 bytes; it cannot be shown here]"
    )


def test_resources_are_shown_with_their_addresses() -> None:
    page = types.TextResourceContents(uri="wiki://page", mime_type="text/plain", text="The page.")
    link = types.ResourceLink(name="plan", uri="wiki://plan", description="what comes next")
    assert text_of(types.EmbeddedResource(resource=page), link) == (
        "[resource: wiki://page, text/plain]\nThe page.\n[resource: wiki://plan, plan, what comes next]"
    )


def test_silence_is_put_into_words() -> None:
    assert text_of() == "The tool succeeded without output."
    failure = answer_of(types.CallToolResult(content=[words("")], is_error=True))
    assert failure.failed
    assert failure.text == "The tool failed without giving a reason."


def test_no_more_than_a_mebibyte_is_kept() -> None:
    assert text_of(words("é" * MAX_CHARACTERS)) == "é" * MAX_CHARACTERS
    assert text_of(words("x" * (MAX_CHARACTERS + 5))).endswith("x\n[5 more characters are left out]")


def test_json_that_is_far_too_deep_is_text_like_any_other() -> None:
    assert text_of(words("[" * 200_000), structured={"a": 1}).endswith('{\n "a": 1\n}')
