"""web-browse: what a page says, from a browser that is stopped whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from swarm_agents.toolbox.tool import Tool
from tests.support.agentcore import BROWSERS, Fails, FakeAgentCore, Page

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.asyncio(loop_scope="session")]

URL = "https://example.org/news"


@pytest.fixture
def browse(tools: Mapping[str, Tool]) -> Tool:
    return tools["web-browse"]


async def test_a_page_is_its_title_its_address_and_its_text(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(title="News", text="Nothing new.\nReally.", address="https://example.org/news/")
    answer = await browse.call({"url": URL})
    assert not answer.failed
    assert answer.text == "Title: News\nAddress: https://example.org/news/\n\nNothing new.\nReally."
    assert [kind for kind, _ in aws.started] == [BROWSERS]
    assert aws.running == set()


async def test_the_websocket_is_opened_with_the_packages_signature_and_nothing_twice(
    browse: Tool, aws: FakeAgentCore
) -> None:
    await browse.call({"url": URL})
    (headers,) = aws.socket_headers
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "X-Amz-Date" in headers
    assert headers["Host"].startswith("127.0.0.1:")
    assert headers["User-Agent"] == "swarm"


async def test_a_browser_that_needs_a_moment_is_given_it(browse: Tool, aws: FakeAgentCore) -> None:
    aws.refused_sockets = 2
    assert not (await browse.call({"url": URL})).failed
    assert len(aws.socket_headers) == 3
    assert len(aws.started) == 1


async def test_a_browser_that_cannot_be_reached_is_a_failure(browse: Tool, aws: FakeAgentCore) -> None:
    aws.refused_sockets = 100
    answer = await browse.call({"url": URL})
    assert answer.failed
    assert answer.text == "AgentCore cannot be reached; try again later."
    assert aws.running == set()


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (Page(error="net::ERR_NAME_NOT_RESOLVED"), "could not be opened: the browser says net::ERR_NAME_NOT_RESOLVED."),
        (Page(breaks=True), "broke off"),
        (Page(garbage=["{"]), "The browser failed"),
        (Page(garbage=["[]"]), "The browser failed"),
    ],
)
async def test_what_goes_wrong_in_the_browser_is_a_sentence(
    browse: Tool, aws: FakeAgentCore, page: Page, says: str
) -> None:
    aws.page = page
    answer = await browse.call({"url": URL})
    assert answer.failed
    assert says in answer.text
    assert (aws.running, aws.sockets) == (set(), 0)


async def test_a_page_that_asks_something_is_not_waited_for_forever(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(has_dialog=True, text="after the dialog")
    assert "after the dialog" in (await browse.call({"url": URL})).text
    assert "Page.handleJavaScriptDialog" in aws.commands


async def test_a_page_that_goes_on_to_another_one_is_followed(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(goes_on=True)
    assert not (await browse.call({"url": URL})).failed


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "http://localhost/"])
async def test_an_address_that_may_not_be_opened_starts_no_browser(browse: Tool, aws: FakeAgentCore, url: str) -> None:
    assert (await browse.call({"url": url})).failed
    assert aws.requests == []


async def test_a_page_that_leads_to_a_private_address_is_not_handed_out(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(address="http://169.254.169.254/latest/meta-data/", text="the key")
    answer = await browse.call({"url": URL})
    assert answer.failed
    assert "the key" not in answer.text


async def test_an_http_error_is_told_with_the_page(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(status=404, text="Not here")
    answer = await browse.call({"url": URL})
    assert "HTTP status: 404" in answer.text
    assert "Not here" in answer.text


async def test_a_page_without_text_says_what_it_is(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(text="", kind="application/pdf", title="")
    assert "(This page has no text; its type is application/pdf.)" in (await browse.call({"url": URL})).text


async def test_of_a_long_page_the_parts_that_the_task_is_about_come(browse: Tool, aws: FakeAgentCore) -> None:
    paragraphs = [f"Paragraph {number} is about nothing. " * 20 + "\n" for number in range(50)]
    paragraphs[30] = "The warranty lasts three years.\n"
    aws.page = Page(text="".join(paragraphs))
    answer = await browse.call({"url": URL, "task": "how long is the warranty"})
    assert "The warranty lasts three years." in answer.text
    assert "characters, these are the ones relevant to the task" in answer.text
    assert len(answer.text) < 2_300


async def test_links_come_when_the_task_speaks_of_links(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(links=[("Archive", "https://example.org/archive")])
    assert "archive" not in (await browse.call({"url": URL})).text
    assert "- Archive: https://example.org/archive" in (await browse.call({"url": URL, "task": "list the links"})).text


async def test_a_page_that_is_cancelled_stops_its_browser_before_it_ends(browse: Tool, aws: FakeAgentCore) -> None:
    aws.page = Page(is_answered=False)
    browsing = asyncio.ensure_future(browse.call({"url": URL}))
    await aws.arrives("Page.navigate").wait()
    assert aws.running
    browsing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await browsing
    assert (aws.running, aws.sockets) == (set(), 0)


async def test_no_browser_is_a_sentence(browse: Tool, aws: FakeAgentCore) -> None:
    aws.fails["StartBrowserSession"] = Fails(status=402, code="ServiceQuotaExceededException")
    answer = await browse.call({"url": URL})
    assert answer.failed
    assert "quota" in answer.text
