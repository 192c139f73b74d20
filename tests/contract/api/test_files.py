"""Files through the doors: tools for small ones, plain HTTP for the bytes, and Slack's twin behind it all."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.clock import ManualClock
from swarm.domain.errors import Unavailable
from swarm.domain.model.deliveries import InDoubt, NotSent
from swarm.domain.model.files import INLINE_BYTES, FileInfo
from swarm.domain.model.threads import File
from swarm.entrypoints.http import files_api
from swarm.services.files.files import ThreadFiles
from swarm.services.files.uploads import Uploads
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from swarm.store.bridge.database import Database
from tests.support.doors import Doors, Visitor, WatchedWakeups, error_of, open_doors
from tests.support.files import FakeContent
from tests.support.twin_client import TwinClient
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("LOOP-20")

ATTACHED = File(id="F1", name="F1.txt", mimetype="text/plain", size_bytes=5)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A message with a file that an agent holds."""

    id: str
    lease: str
    thread_id: str

    @property
    def upload(self) -> str:
        return f"/files?inbox_message_id={self.id}&name=report.csv"

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Swarm-Lease": self.lease}


async def work(doors: Doors, agent: Visitor) -> Work:
    doors.world.files.keep("F1", b"hello")
    await doors.world.hears(replace(said(f"{BOT} look"), files=(ATTACHED,)))
    trigger = await agent.only(hold="true")
    (inbox_message,) = trigger["inbox_messages"]
    assert inbox_message["files"] == [{"id": "F1", "name": "F1.txt", "mimetype": "text/plain", "size_bytes": 5}]
    return Work(id=inbox_message["id"], lease=trigger["lease"]["token"], thread_id=trigger["thread"]["id"])


def shrink(doors: Doors, cap_bytes: int) -> None:
    """The same coordinator with another cap."""
    for service in (doors.world.services.files, doors.world.services.uploads):
        assert isinstance(service, ThreadFiles | Uploads)
        service._cap_bytes = cap_bytes


# The tools


async def test_a_file_comes_as_text_and_its_bytes_by_its_path(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    for place in ({"inbox_message_id": given.id}, {"thread_id": given.thread_id}):
        file = await lea.uses("slack-download-file", file_id="F1", **place)
        assert (file["name"], file["text"], file["size_bytes"]) == ("F1.txt", "hello", 5)
        assert file["sha256"] == hashlib.sha256(b"hello").hexdigest()
        answer = await lea.ask("GET", file["path"])
        assert (answer.status_code, answer.content) == (200, b"hello")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-length"] == "5"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''F1.txt"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert all(opened.closed for opened in doors.world.files.opened)


async def test_a_thread_is_read_in_pages(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    first = await lea.uses("slack-read-thread", thread_id=given.thread_id, limit=1)
    assert first["next_after_ts"] is None
    assert first["thread"]["id"] == given.thread_id
    assert [message["files"][0]["id"] for message in first["messages"]] == ["F1"]
    assert first["context_incomplete"] is False


@pytest.mark.parametrize(
    "content", [{"text": "héllo"}, {"content_base64": base64.b64encode("héllo".encode()).decode()}]
)
async def test_a_small_file_is_put_into_the_thread_by_a_tool(
    doors: Doors, lea: Visitor, content: dict[str, str]
) -> None:
    given = await work(doors, lea)
    said_ = {"inbox_message_id": given.id, "name": "a b.txt", "title": "Letters", "comment": "here", **content}
    first = await lea.uses("slack-upload-file", lease=given.lease, **said_)
    again = await lea.uses("slack-upload-file", lease_token=given.lease, **said_)
    assert first == again
    assert (first["name"], first["size_bytes"]) == ("a b.txt", 6)
    (share,) = doors.world.files.shared
    assert (share.title, share.comment) == ("Letters", "here")
    assert doors.world.files.placed == {share.file_id: "héllo".encode()}
    page = await lea.uses("slack-read-thread", inbox_message_id=given.id)
    assert page["messages"][-1]["ts"] == first["ts"]
    assert (await lea.uses("read-inbox-message", inbox_message_id=given.id))["status"] == "claimed"


async def test_a_name_that_means_something_to_a_file_system_is_refused(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    for name in ("", "../x", ".bashrc", "a\nb", "x" * 256):
        about = {"inbox_message_id": given.id, "name": name}
        error = error_of(await lea.tool("slack-upload-file", given.lease, **about, text="hello"))
        assert (error["code"], list(error["fields"])) == ("invalid", ["name"])
        answer = await lea.ask("POST", "/files", params=about, headers=given.headers, content=b"hello")
        assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["name"])
    assert doors.world.files.placed == {}


BAD_ARGUMENTS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("slack-upload-file", {"name": "x"}, {"text", "content_base64"}),
    ("slack-upload-file", {"name": "x", "text": "a", "content_base64": "YQ=="}, {"text", "content_base64"}),
    ("slack-upload-file", {"name": "x", "content_base64": "no!"}, {"content_base64"}),
    ("slack-upload-file", {"name": "x", "content_base64": "ä"}, {"content_base64"}),
    ("slack-upload-file", {"name": "x", "text": ""}, {"content"}),
    ("slack-upload-file", {"name": "x", "text": "a", "comment": "y" * 3_001}, {"comment"}),
    ("slack-upload-file", {"name": "x", "text": "a", "title": "y" * 256}, {"title"}),
    ("slack-upload-file", {"name": "x", "text": "a\0"}, {"text"}),
    ("slack-upload-file", {"name": "x", "text": "a", "task_id": "1"}, {"inbox_message_id", "task_id", "thread_id"}),
    ("slack-download-file", {"file_id": ""}, {"file_id"}),
    ("slack-download-file", {"file_id": "F1", "task_id": "1"}, {"inbox_message_id", "task_id", "thread_id"}),
    ("slack-read-thread", {"limit": 0}, {"limit"}),
    ("slack-read-thread", {"limit": 201}, {"limit"}),
    ("slack-read-thread", {"after_ts": "now"}, {"after_ts"}),
]


async def test_bad_arguments_are_refused_by_name(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    for tool, arguments, fields in BAD_ARGUMENTS:
        error = error_of(await lea.tool(tool, given.lease, inbox_message_id=given.id, **arguments))
        assert (error["code"], set(error["fields"])) == ("invalid", fields), arguments
    assert doors.world.files.placed == {}


async def test_what_is_too_large_for_a_tool_call_is_sent_to_the_other_door(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    said_ = {"inbox_message_id": given.id, "name": "x", "text": "x" * (INLINE_BYTES + 1)}
    error = error_of(await lea.tool("slack-upload-file", given.lease, **said_))
    assert error["code"] == "too_large"
    assert "POST /files" in error["hint"]


# Plain HTTP


async def test_a_file_of_any_kind_is_put_into_the_thread_over_http(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    answers = [await lea.ask("POST", given.upload, headers=given.headers, content=b"\x00\xff") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    (share,) = doors.world.files.shared
    assert doors.world.files.placed[share.file_id] == b"\x00\xff"


async def test_a_request_id_spares_the_second_upload(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    for content in (b"one", b"two"):
        answer = await lea.ask("POST", f"{given.upload}&request_id=1", headers=given.headers, content=content)
        assert (answer.status_code, answer.json()["size_bytes"]) == (201, 3)
    assert list(doors.world.files.placed.values()) == [b"one"]


async def test_a_body_of_unknown_size_is_refused(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)

    async def chunked() -> AsyncIterator[bytes]:
        yield b"hello"

    answer = await lea.ask("POST", given.upload, headers=given.headers, content=chunked())
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert "Content-Length" in answer.json()["error"]["hint"]


async def test_the_cap_holds_in_both_directions(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    shrink(doors, 4)
    answer = await lea.ask("POST", given.upload, headers=given.headers, content=b"hello")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    answer = await lea.ask("GET", f"/files/F1?inbox_message_id={given.id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    error = error_of(await lea.tool("slack-download-file", file_id="F1", inbox_message_id=given.id))
    assert error["code"] == "too_large"
    assert "SWARM_FILE_CAP_BYTES" in error["hint"]


async def test_a_download_that_grows_past_the_cap_is_cut_off(doors: Doors, lea: Visitor) -> None:
    """Its answer has begun, so the connection is cut: a client never takes a part for the whole."""
    given = await work(doors, lea)
    doors.world.files.keep("F1", b"x" * 100, size=5)
    shrink(doors, 50)
    reader, writer = await asyncio.open_connection(*doors.address)
    path = f"/files/F1?inbox_message_id={given.id}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {lea.token}\r\n\r\n".encode())
    received = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)  # until the connection is closed
    writer.close()
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-length: 100" in head.lower()
    assert len(body) < 100
    assert doors.world.files.opened[-1].closed


async def test_a_client_that_takes_nothing_is_cut_off(
    doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await work(doors, lea)
    doors.world.files.keep("F1", b"x" * 50_000_000)
    doors.world.files.piece_bytes = 1_000_000
    monkeypatch.setattr(files_api, "DOWNLOAD_SECONDS", 0.2)
    _, writer = await asyncio.open_connection(*doors.address, limit=1)
    path = f"/files/F1?inbox_message_id={given.id}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {lea.token}\r\n\r\n".encode())
    await wait_until(lambda: opened_files(doors), lambda opened: len(opened) == 1)
    await asyncio.wait_for(doors.world.files.opened[0].ended.wait(), PATIENCE_SECONDS)
    writer.transport.abort()


async def opened_files(doors: Doors) -> list[FakeContent]:
    return doors.world.files.opened


async def test_an_upload_that_breaks_off_leaves_nothing(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    _, writer = await asyncio.open_connection(*doors.address)
    head = f"POST {given.upload} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {lea.token}\r\nX-Swarm-Lease: {given.lease}"
    began = asyncio.Event()
    place = doors.world.files.place

    async def watched(name: str, size_bytes: int, chunks: Any) -> str:
        began.set()
        try:
            return await place(name, size_bytes, chunks)
        finally:
            ended.set()

    ended = asyncio.Event()
    doors.world.files.place = watched  # type: ignore[method-assign]
    writer.write(f"{head}\r\nContent-Length: 100\r\n\r\nhello".encode())
    await asyncio.wait_for(began.wait(), PATIENCE_SECONDS)
    writer.transport.abort()
    await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
    assert doors.world.files.calls == []
    assert (await lea.ask("POST", given.upload, headers=given.headers, content=b"hello")).status_code == 201


async def test_a_stale_lease_is_refused_over_http(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    for headers in ({"X-Swarm-Lease": "made-up"}, {"X-Swarm-Lease": ""}):
        answer = await lea.ask("POST", given.upload, headers=headers, content=b"hello")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "lease_lost")
    assert doors.world.files.placed == {}


async def test_nobody_else_gets_at_a_file(doors: Doors, lea: Visitor) -> None:
    given = await work(doors, lea)
    wim, stranger = await doors.worker(), doors.visitor("made-up")
    for visitor, status in ((wim, 404), (doors.operator, 403), (stranger, 401)):
        answer = await visitor.ask("GET", f"/files/F1?inbox_message_id={given.id}")
        assert answer.status_code == status
        answer = await visitor.ask("POST", given.upload, headers=given.headers, content=b"hello")
        assert answer.status_code in (status, 409)
    error = error_of(await wim.tool("slack-read-thread", thread_id=given.thread_id))
    assert error["code"] == "not_found"
    assert (doors.world.files.opened, doors.world.files.placed) == ([], {})


BAD_ADDRESSES = [
    ("/files/F1", 422),
    ("/files/F1?thread_id=x&task_id=y", 422),
    ("/files/F1?thread_id=", 422),
    ("/files/F1?colour=red&thread_id=x", 422),
    ("/files/F1?thread_id=x", 404),
    ("/files/%00?thread_id=x", 422),
    ("/files/..%2F..%2Fx?thread_id=x", 404),
    ("/files/%ff?thread_id=x", 404),
]


async def test_a_bad_address_is_refused(doors: Doors, lea: Visitor) -> None:
    for path, status in BAD_ADDRESSES:
        assert (await lea.ask("GET", path)).status_code == status, path


@pytest.mark.parametrize("length", ["-1", "x", "", "99999999999999999999999999"])
async def test_a_nonsensical_length_is_refused(doors: Doors, lea: Visitor, length: str) -> None:
    given = await work(doors, lea)
    reader, writer = await asyncio.open_connection(*doors.address)
    head = f"POST {given.upload} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {lea.token}\r\nX-Swarm-Lease: {given.lease}"
    writer.write(f"{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode())
    status = (await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)).split()[1]
    writer.close()
    assert status in (b"400", b"413")
    assert doors.world.files.placed == {}


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (NotSent(reason="ratelimited", retry_after_seconds=6.5), 429, "rate_limited"),
        (InDoubt(reason="the connection broke"), 503, "unavailable"),
    ],
)
async def test_what_slack_did_not_say_yes_to_is_told(
    doors: Doors, lea: Visitor, answer: NotSent | InDoubt, status: int, code: str
) -> None:
    given = await work(doors, lea)
    doors.world.files.answers.append((answer, False))
    refused = await lea.ask("POST", given.upload, headers=given.headers, content=b"hello")
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert refused.headers.get("retry-after") == ("7" if status == 429 else None)


async def test_a_slack_that_is_away_is_unavailable(doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    given = await work(doors, lea)

    async def away(file: FileInfo, cap_bytes: int) -> None:
        raise Unavailable("Slack's files cannot be reached.")

    monkeypatch.setattr(doors.world.files, "open", away)
    answer = await lea.ask("GET", f"/files/F1?inbox_message_id={given.id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_the_routes_are_described(doors: Doors) -> None:
    paths = (await doors.http.get(f"{doors.base}/openapi.json")).json()["paths"]
    download, upload = paths["/files/{file_id}"]["get"], paths["/files"]["post"]
    assert {parameter["name"] for parameter in download["parameters"]} == {
        "file_id", "inbox_message_id", "task_id", "thread_id",
    }  # fmt: skip
    assert {"name", "X-Swarm-Lease", "request_id"} <= {parameter["name"] for parameter in upload["parameters"]}
    assert "application/octet-stream" in upload["requestBody"]["content"]
    assert {"400", "401", "403", "404", "409", "413", "422", "429", "503"} <= set(upload["responses"])


# With the twin behind it


async def test_bytes_pass_through_us_from_slack_and_to_slack(sqlite_url: str) -> None:
    wakeups, clock = WatchedWakeups(), ManualClock()
    async with (
        running(build_twin(rates=False)) as twin_url,
        Database(sqlite_url, clock=clock, wakeups=wakeups) as database,
    ):
        gateway = Gateway("xoxb-twin-swarm", base_url=f"{twin_url}api/", pacing=Pacing(enforced=False))
        async with open_doors(World(database, clock, files=gateway.files), wakeups) as doors:  # type: ignore[arg-type]
            person = TwinClient(twin_url.rstrip("/"), doors.http)
            sent = {
                "user": "alice",
                "channel": "general",
                "text": "@swarm",
                "files": [{"name": "a.csv", "content": "a,b"}],
            }
            ts = (await person.ask("POST", "messages", json=sent))["ts"]
            (message,) = await person.messages(thread_ts=ts)
            attached = File(id=message["files"][0]["id"], name="a.csv")
            lea = await doors.lead()
            await doors.world.hears(replace(said(BOT, ts=ts, channel="C0GENERAL"), files=(attached,)))
            trigger = await lea.only(hold="true")
            file = await lea.uses("slack-download-file", file_id=attached.id, inbox_message_id=trigger["id"])
            assert file["text"] == "a,b"
            large = bytes(range(256)) * 12_000
            path = f"/files?inbox_message_id={trigger['id']}&name=large.bin"
            lease = {"X-Swarm-Lease": trigger["lease"]["token"]}
            shared = (await lea.ask("POST", path, headers=lease, content=large)).json()
            _, landed = await person.messages(thread_ts=ts)
            assert landed["ts"] == shared["ts"]
            back = await lea.ask("GET", f"/files/{shared['file_id']}?inbox_message_id={trigger['id']}")
            assert back.content == large
        await gateway.close()
