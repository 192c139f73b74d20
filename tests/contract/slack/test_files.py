"""Files against the twin, and against a Slack that misbehaves: streamed, capped, and the token for nobody else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDictProxy

from swarm.domain.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    RefusedBySlack,
    SwarmError,
    TooLarge,
    Unavailable,
)
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.files import FileInfo, Share
from swarm.slack.incoming.message_text import file_name, transcript
from swarm.slack.outgoing.files import OpenDownload
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.slack.workspace import Workspace
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.req("LOOP-20")

CHAN_13 = pytest.mark.req("CHAN-13")
CAP = 10_000_000
GENERAL = "C0GENERAL"
TOKEN = "xoxb-secret"
UNREACHABLE = "http://127.0.0.1:9"  # nothing listens on the discard port


async def whole(opened: OpenDownload) -> bytes:
    try:
        return b"".join([chunk async for chunk in opened.chunks()])
    finally:
        await opened.close()


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


def share(file_id: str, thread_ts: str, *, comment: str | None = None) -> Share:
    return Share(file_id=file_id, channel=GENERAL, thread_ts=thread_ts, title="Report", comment=comment)


async def attached(workspace: Workspace, content: str = "a,b\n", name: str = "data.csv") -> tuple[str, str]:
    """Somebody attaches a file; the message's timestamp and the file's id."""
    ts = await workspace.say("look", files=[{"name": name, "content": content}])
    (message,) = await workspace.messages(ts)
    return ts, message["files"][0]["id"]


# Downloads


async def test_an_attachment_is_described_and_downloaded(gateway: Gateway, workspace: Workspace) -> None:
    _, file_id = await attached(workspace, "a,b\nä\n")
    info = await gateway.files.info(file_id)
    assert (info.name, info.mimetype, info.size_bytes) == ("data.csv", "text/csv", 7)
    opened = await gateway.files.open(info, CAP)
    assert opened.size_bytes == 7
    assert await whole(opened) == "a,b\nä\n".encode()


async def test_a_web_page_that_somebody_attached_is_not_taken_for_slacks_login(
    gateway: Gateway, workspace: Workspace
) -> None:
    _, file_id = await attached(workspace, "<p>hello", "page.html")
    assert await whole(await gateway.files.open(await gateway.files.info(file_id), CAP)) == b"<p>hello"


async def test_a_file_that_slack_does_not_know_is_not_found(gateway: Gateway) -> None:
    with pytest.raises(NotFound, match="file_not_found"):
        await gateway.files.info("F0NOWHERE")


async def test_a_token_that_may_not_read_files_is_told_apart(workspace: Workspace) -> None:
    gateway = workspace.gateway()
    _, file_id = await attached(workspace)
    info = await gateway.files.info(file_id)
    gateway.client.token = "xoxb-other"
    with pytest.raises(Forbidden, match="does not allow access") as caught:
        await gateway.files.open(info, CAP)
    assert "files:read" in (caught.value.hint or "")
    await gateway.close()


# Uploads


async def test_a_file_is_invisible_until_it_is_shared_and_then_in_its_thread(
    gateway: Gateway, workspace: Workspace
) -> None:
    root = await workspace.say("@swarm a report, please")
    file_id = await gateway.files.place("report.csv", 5, pieces(b"a,", b"b\n", b"c"))
    assert len(await workspace.messages(root)) == 1
    assert await gateway.files.shared_as(file_id, GENERAL, root) is None
    assert await gateway.files.share(share(file_id, root, comment="here it is")) == DeliveryAccepted(thread_ts=root)
    _, message = await workspace.messages(root)
    assert (message["text"], [file["name"] for file in message["files"]]) == ("here it is", ["report.csv"])
    assert await gateway.files.shared_as(file_id, GENERAL, root) == message["ts"]
    assert await gateway.files.shared_as(file_id, "C0RANDOM", root) is None
    assert await gateway.files.shared_as(file_id, GENERAL, message["ts"]) is None
    assert await whole(await gateway.files.open(await gateway.files.info(file_id), CAP)) == b"a,b\nc"


async def test_a_large_upload_goes_through_in_pieces(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm something large")
    piece, count = b"x" * 50_000, 100
    file_id = await gateway.files.place("large.bin", len(piece) * count, pieces(*[piece] * count))
    assert isinstance(await gateway.files.share(share(file_id, root)), DeliveryAccepted)
    opened = await gateway.files.open(await gateway.files.info(file_id), CAP)
    sizes = [len(chunk) async for chunk in opened.chunks()]
    await opened.close()
    assert sum(sizes) == len(piece) * count
    assert max(sizes) <= 64 * 1024


async def test_a_name_and_a_comment_arrive_as_they_are(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm hello")
    name, comment = "Übersicht & Co (1).txt", "x" * 3_000 + " &amp; ü\n\n%41+"
    file_id = await gateway.files.place(name, 1, pieces(b"x"))
    assert isinstance(await gateway.files.share(share(file_id, root, comment=comment)), DeliveryAccepted)
    [call] = await workspace.calls("files.completeUploadExternal")
    assert call["args"]["initial_comment"] == comment
    assert (await gateway.files.info(file_id)).name == name


async def test_slacks_reasons_to_refuse_are_named(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm hello")
    await workspace.fault("error", method="files.getUploadURLExternal", error="file_uploads_disabled")
    with pytest.raises(Conflict, match="file_uploads_disabled"):
        await gateway.files.place("x.txt", 1, pieces(b"x"))
    assert await gateway.files.share(share("F0NOWHERE", root)) == DeliveryRefused(error="file_not_found")
    file_id = await gateway.files.place("x.txt", 1, pieces(b"x"))
    assert await gateway.files.share(share(file_id, "1.000001")) == DeliveryRefused(error="thread_not_found")


async def test_what_became_of_sharing_is_told_honestly(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm hello")
    file_id = await gateway.files.place("x.txt", 1, pieces(b"x"))
    await workspace.fault("http_429", method="files.completeUploadExternal", seconds=7)
    answer = await gateway.files.share(share(file_id, root))
    assert answer == NotSent(reason="ratelimited", retry_after_seconds=7)
    await workspace.fault("cut_after_accept", method="files.completeUploadExternal")
    assert isinstance(await gateway.files.share(share(file_id, root)), InDoubt)
    assert await gateway.files.shared_as(file_id, GENERAL, root) is not None  # it had landed


async def test_a_look_that_slack_refuses_is_no_no(gateway: Gateway, workspace: Workspace) -> None:
    await workspace.fault("error", method="files.info", error="missing_scope")
    with pytest.raises(RefusedBySlack, match="missing_scope"):
        await gateway.files.shared_as("F1", GENERAL, "1.000001")


async def test_what_is_wrong_with_the_content_is_raised_as_it_is(gateway: Gateway) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"x"
        raise BadRequest("The body is incomplete.")

    with pytest.raises(BadRequest, match="incomplete"):
        await gateway.files.place("x.txt", 5, breaks())


# A Slack that misbehaves


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class OddSlack:
    """Answers a download as a test says, and knows what was asked of a host that is not Slack's."""

    def __init__(self) -> None:
        self.answer: Answer = said(text="nothing")
        self.asked: list[web.Request] = []
        self.asked_elsewhere: list[web.Request] = []
        self.url = self.url_elsewhere = ""

    async def content(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return await self.answer(request)

    async def elsewhere(self, request: web.Request) -> web.StreamResponse:
        self.asked_elsewhere.append(request)
        return web.Response(text="thanks for the token")

    def file(self, **more: Any) -> FileInfo:
        known = {"id": "F1", "name": "x.zip", "mimetype": "application/zip", "size_bytes": None, "url": self.url}
        return FileInfo(**{**known, **more})


def said(**response: Any) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(**response)

    return answer


@pytest.fixture
async def odd() -> AsyncIterator[OddSlack]:
    slack, here, there = OddSlack(), web.Application(), web.Application()
    here.router.add_route("*", "/content", slack.content)
    there.router.add_route("*", "/content", slack.elsewhere)
    async with TestServer(here) as server, TestServer(there) as elsewhere:
        slack.url = str(server.make_url("/content"))
        slack.url_elsewhere = str(elsewhere.make_url("/content"))
        yield slack


@pytest.fixture
async def oddly(odd: OddSlack) -> AsyncIterator[Gateway]:
    """A gateway to that Slack."""
    async with reaching(odd, timeout_seconds=PATIENCE_SECONDS) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def reaching(odd: OddSlack, timeout_seconds: float) -> AsyncIterator[Gateway]:
    base_url = odd.url.replace("/content", "/api/")
    gateway = Gateway(TOKEN, base_url=base_url, pacing=Pacing(enforced=False), timeout_seconds=timeout_seconds)
    yield gateway
    await gateway.close()


async def fails(gateway: Gateway, file: FileInfo, error: type[SwarmError], match: str = "", cap: int = 1_000) -> None:
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        with pytest.raises(error, match=match):
            await whole(await gateway.files.open(file, cap))


async def test_the_token_goes_to_slack_and_to_nobody_else(odd: OddSlack, oddly: Gateway) -> None:
    assert await whole(await oddly.files.open(odd.file(), CAP)) == b"nothing"
    assert odd.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"
    await fails(oddly, odd.file(url=odd.url_elsewhere), Forbidden, "not Slack's file host")
    assert odd.asked_elsewhere == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(odd: OddSlack, oddly: Gateway, status: int) -> None:
    odd.answer = said(status=status, headers={"Location": odd.url_elsewhere})
    await fails(oddly, odd.file(), Forbidden, "redirect")
    odd.answer = said(status=status, headers={"Location": "/content?again"})
    await fails(oddly, odd.file(), Forbidden, "redirect")
    assert odd.asked_elsewhere == []
    assert len(odd.asked) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://files.slack.com/x",
        "https://files.slack.com.example.org/x",
        "https://files.slack.com@example.org/x",
        "https://example.org@files.slack.com/x",
        "https://files.slack.com:8443/x",
        "https://files.slack.com:no/x",
        "https://slack.com/x",
        "https://example.org/files.slack.com",
        "file:///etc/passwd",
        "//files.slack.com/x",
        "https://[files.slack.com/x",
        "files.slack.com",
        "x",
    ],
)
async def test_beside_the_real_slack_only_its_file_host_will_do(odd: OddSlack, url: str) -> None:
    gateway = Gateway(TOKEN, pacing=Pacing(enforced=False))
    gateway.client.proxy = UNREACHABLE  # whatever is tried ends there
    await fails(gateway, odd.file(url=url), Forbidden, "not Slack's file host")
    for good in ("https://files.slack.com/x", "https://FILES.slack.com:443/x"):
        await fails(gateway, odd.file(url=good), Unavailable, "cannot be reached")
    await gateway.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (said(text="<html>log in", content_type="text/html"), Forbidden),
        (said(text="no", status=403), Forbidden),
        (said(text="no", status=401), Forbidden),
        (said(text="no", status=404), NotFound),
        (said(text="no", status=410), NotFound),
        (said(text="no", status=429), Unavailable),
        (said(text="no", status=500), Unavailable),
        (said(text="no", status=204), Unavailable),
        (said(body=b"x" * 1_001), TooLarge),
    ],
    ids=["login", "403", "401", "404", "410", "429", "500", "204", "too large by its header"],
)
async def test_what_is_not_the_file_is_an_error_before_a_byte_of_it(
    odd: OddSlack, oddly: Gateway, answer: Answer, error: type[SwarmError]
) -> None:
    odd.answer = answer
    with pytest.raises(error):
        await oddly.files.open(odd.file(), 1_000)


async def test_a_login_page_instead_of_a_web_page_is_told_apart_by_how_it_is_sent(
    odd: OddSlack, oddly: Gateway
) -> None:
    odd.answer = said(text="<html>log in", content_type="text/html")
    await fails(oddly, odd.file(name="x.html", mimetype="text/html"), Forbidden, "does not allow access")


async def test_a_stream_without_end_is_cut_at_the_cap(odd: OddSlack, oddly: Gateway) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 10_000)
        return response

    odd.answer = endless
    await fails(oddly, odd.file(), TooLarge, "at most 100000", cap=100_000)


@pytest.mark.parametrize("how", ["breaks off", "falls silent"])
async def test_a_file_that_does_not_come_to_its_end_is_an_error(odd: OddSlack, how: str) -> None:
    let_go = asyncio.Event()

    async def unfinished(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        if how == "falls silent":
            await let_go.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    odd.answer = unfinished
    async with reaching(odd, timeout_seconds=1 if how == "falls silent" else PATIENCE_SECONDS) as gateway:
        await fails(gateway, odd.file(), Unavailable, "broke off")
    let_go.set()


async def test_a_file_that_slack_calls_too_large_is_not_even_asked_for(odd: OddSlack, oddly: Gateway) -> None:
    await fails(oddly, odd.file(size_bytes=1_001), TooLarge, "1001 bytes; at most 1000")
    assert odd.asked == []


async def test_a_file_that_is_only_linked_or_hidden_has_no_content(odd: OddSlack, oddly: Gateway) -> None:
    await fails(oddly, odd.file(url=None), NotFound, "only linked")
    assert odd.asked == []


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ({"url_private_download": "https://files.slack.com/x", "is_external": True}, False),
        ({"url_private_download": "https://files.slack.com/x", "mode": "external"}, False),
        ({"mode": "hidden_by_limit"}, False),
        ({"url_private_download": "https://files.slack.com/x", "mode": "hosted"}, True),
        ({"url_private_download": 7, "name": 7, "size": "many", "mimetype": []}, False),
    ],
    ids=["external", "external by mode", "hidden", "hosted", "nonsense"],
)
async def test_a_file_is_described_whatever_slack_says_of_it(
    scripted: Gateway, script: ScriptedSlack, file: dict[str, object], kept: bool
) -> None:
    script.answers["files.info"] = {"ok": True, "file": file}
    info = await scripted.files.info("F1")
    assert (info.name, info.url is not None) == ("F1", kept)


async def test_a_long_comment_goes_where_there_is_room_for_it(scripted: Gateway, script: ScriptedSlack) -> None:
    """Not into the address, as most arguments do."""
    script.answers["files.completeUploadExternal"] = {"ok": True, "files": []}
    assert isinstance(await scripted.files.share(share("F1", "1.000001", comment="x" * 3_000)), DeliveryAccepted)
    [(_, body)] = script.calls
    assert b"initial_comment=" + b"x" * 3_000 in body


async def test_an_upload_goes_to_slacks_file_host_only_and_without_the_token(
    odd: OddSlack, oddly: Gateway, scripted: Gateway, script: ScriptedSlack
) -> None:
    script.answers["files.getUploadURLExternal"] = {"ok": True, "file_id": "F1", "upload_url": odd.url_elsewhere}
    with pytest.raises(Forbidden, match="not Slack's file host"):
        await scripted.files.place("x.txt", 1, pieces(b"x"))
    assert odd.asked_elsewhere == []


@pytest.mark.parametrize(("status", "error"), [(302, Unavailable), (413, Unavailable), (500, Unavailable)])
async def test_an_upload_that_slack_does_not_take_is_an_error(
    scripted: Gateway, script: ScriptedSlack, status: int, error: type[SwarmError]
) -> None:
    base = scripted.client.base_url
    script.answers["files.getUploadURLExternal"] = {"ok": True, "file_id": "F1", "upload_url": f"{base}upload"}
    script.answers["upload"] = web.Response(status=status, headers={"Location": "/api/elsewhere"})
    with pytest.raises(error, match=str(status)):
        await scripted.files.place("x.txt", 1, pieces(b"x"))
    assert [method for method, _ in script.calls] == ["files.getUploadURLExternal", "upload"]
    assert all("Authorization" not in headers for headers in script.headers["upload"])


@pytest.mark.parametrize("answer", [{"ok": True}, {"ok": True, "file_id": "F1"}, {"ok": True, "upload_url": "x"}])
async def test_an_answer_without_an_address_is_an_error(
    scripted: Gateway, script: ScriptedSlack, answer: dict[str, object]
) -> None:
    script.answers["files.getUploadURLExternal"] = answer
    with pytest.raises((Unavailable, Forbidden)):
        await scripted.files.place("x.txt", 1, pieces(b"x"))


class ScriptedSlack:
    """Answers calls as a test says, and remembers them."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, bytes]] = []
        self.headers: dict[str, list[CIMultiDictProxy[str]]] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls.append((method, await request.read()))
        self.headers.setdefault(method, []).append(request.headers)
        answer = self.answers[method]
        return answer if isinstance(answer, web.Response) else web.json_response(answer)


@pytest.fixture
def script() -> ScriptedSlack:
    return ScriptedSlack()


@pytest.fixture
async def scripted(script: ScriptedSlack) -> AsyncIterator[Gateway]:
    app = web.Application()
    app.router.add_route("*", "/api/{method}", script.answer)
    async with TestServer(app) as server:
        gateway = Gateway("xoxb-1", base_url=str(server.make_url("/api/")), pacing=Pacing(enforced=False))
        yield gateway
        await gateway.close()


# What Slack leaves out of messages


@CHAN_13
@pytest.mark.parametrize("answer", [{"ok": False, "error": "file_not_found"}, web.Response(status=500)])
async def test_a_file_that_slack_does_not_describe_is_told_as_such(
    scripted: Gateway, script: ScriptedSlack, answer: object
) -> None:
    file: dict[str, object] = {"id": "F1", "mode": "file_access", "file_access": "check_file_info"}
    script.answers["files.info"] = answer
    await scripted.files.complete({"files": [file]})
    assert file_name(file) == "a file of another workspace that Slack does not show"


@CHAN_13
async def test_a_long_transcript_is_fetched_whole_from_slack_alone(odd: OddSlack, oddly: Gateway) -> None:
    vtt = (
        "\ufeffWEBVTT\r\n\r\n1\r\n00:00.000 --> 00:01.000\r\n- We begin\r\n\r\n00:01.000 --> 00:02.000\r\nand end.\r\n"
    )
    odd.answer = said(text=vtt, content_type="text/vtt")

    def clip(url: str) -> dict[str, Any]:
        return {"id": "F1", "vtt": url, "transcription": {"preview": {"content": "We be", "has_more": True}}}

    whole_clip, cut = clip(odd.url), clip(odd.url_elsewhere)
    await oddly.files.complete({"files": [whole_clip, cut]})
    assert transcript(whole_clip) == {"content": "We begin\nand end."}
    assert transcript(cut) == {"content": "We be", "has_more": True}
    assert odd.asked_elsewhere == []
