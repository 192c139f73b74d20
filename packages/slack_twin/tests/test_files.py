"""Files: uploaded in three steps like the SDK does, shared, read, downloaded, deleted."""

import asyncio
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from tests.test_shapes import differences, sample
from tests.world import BOT_TOKEN, World

pytestmark = pytest.mark.req("TWIN-02")


async def announce(world: World, content: bytes, name: str = "notes.txt", **more: Any) -> tuple[str, str]:
    """Returns the id and the upload address of an announced file."""
    answer = await world.client().files_getUploadURLExternal(filename=name, length=len(content), **more)
    return answer["file_id"], answer["upload_url"]


async def upload(world: World, content: bytes, name: str = "notes.txt") -> str:
    """Returns the id of an uploaded but incomplete file."""
    file_id, url = await announce(world, content, name)
    assert await send(world, url, content) == 200
    return file_id


async def send(world: World, url: str, content: Any) -> int:
    async with world.http.post(url, data=content) as answer:
        await answer.read()
        return answer.status


async def download(world: World, url: str, token: str | None = BOT_TOKEN) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with world.http.get(url, headers=headers) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_sdk_uploads_a_file_into_a_thread(world: World, kind: str) -> None:
    root = await world.say("alice", "the report, please")
    content = "Grüße\n" * 1_000
    wanted: dict[str, Any] = {"channel": world.general, "thread_ts": root, "filename": "report.txt", "content": content}
    wanted |= {"title": "The report", "initial_comment": "Here it is"}
    answer: Any
    if kind == "async":
        answer = (await world.client().files_upload_v2(**wanted)).data
    else:
        answer = (await asyncio.to_thread(lambda: world.sync_client().files_upload_v2(**wanted))).data
    assert (answer["file"]["title"], answer["file"]["size"]) == ("The report", len(content.encode()))
    (reply,) = (await world.seen(thread_ts=root))[1:]
    assert (reply["text"], reply["subtype"], reply["author"]) == ("Here it is", "file_share", "swarm")
    assert reply["files"][0]["name"] == "report.txt"
    (share,) = answer["file"]["shares"]["public"][world.general]
    assert (share["ts"], share["thread_ts"]) == (reply["ts"], root)
    assert await download(world, answer["file"]["url_private_download"]) == (200, content.encode())


async def test_several_files_are_shared_in_one_message(world: World) -> None:
    parts: list[dict[str, Any]] = [{"filename": f"{n}.bin", "content": bytes([n] * n)} for n in (1, 2, 3)]
    answer = await world.client().files_upload_v2(file_uploads=parts, channel=world.general)
    assert [file["size"] for file in answer["files"]] == [1, 2, 3]
    assert [[file["name"] for file in message["files"]] for message in await world.seen()] == [
        ["1.bin", "2.bin", "3.bin"]
    ]


async def test_content_comes_raw_or_as_a_form_and_only_as_announced(world: World) -> None:
    content = b"\x00\xff binary"
    form = aiohttp.FormData()
    form.add_field("filename", content, filename="x.bin")
    file_id, url = await announce(world, content)
    assert await send(world, url, b"short") == 400
    assert await send(world, url, content + b"more") == 400
    assert await world.error("files.completeUploadExternal", json={"files": [{"id": file_id}]}) == "file_not_found"
    assert await send(world, url, form) == 200
    completed = await world.client().files_completeUploadExternal(files=[{"id": file_id}])
    assert await download(world, completed["files"][0]["url_private"]) == (200, content)
    assert await send(world, url, content) == 404
    assert await send(world, f"{world.base}upload/v1/nonsense", content) == 404


async def test_a_broken_form_is_refused(world: World) -> None:
    _, url = await announce(world, b"four")
    kinds = ("multipart/form-data", "multipart/form-data; boundary=x")
    for kind in kinds:
        async with world.http.post(url, data=b"--x\r\nnonsense", headers={"Content-Type": kind}) as answer:
            assert answer.status == 400


async def test_a_file_without_a_channel_is_seen_by_its_app_alone(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    file_id = await upload(world, b"secret")
    await world.client().files_completeUploadExternal(files=[{"id": file_id, "title": "T"}])
    mine = (await world.client().files_info(file=file_id))["file"]
    assert (mine["title"], mine["is_public"], mine["channels"]) == ("T", False, [])
    with pytest.raises(SlackApiError, match="file_not_found"):
        await world.client("xoxb-twin-other").files_info(file=file_id)
    assert await download(world, mine["url_private"], "xoxb-twin-other") == (404, b"no such file")
    assert (await download(world, mine["url_private"], None))[0] == 403
    assert (await download(world, mine["url_private"]))[0] == 200


async def test_other_apps_hear_of_a_file_and_of_its_end(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    other = await world.line("xapp-twin-other")
    file_id = await upload(world, b"hello")
    client = world.client()
    await client.files_completeUploadExternal(files=[{"id": file_id}], channel_id=world.general)
    shared, named = [(await other.next_acknowledged())["payload"]["event"] for _ in range(2)]
    assert (shared["subtype"], shared["files"][0]["id"]) == ("file_share", file_id)
    assert (named["type"], named["file_id"], named["channel_id"]) == ("file_shared", file_id, world.general)
    with pytest.raises(SlackApiError, match="cant_delete_file"):
        await world.client("xoxb-twin-other").files_delete(file=file_id)
    await client.files_delete(file=file_id)
    changed, deleted = [(await other.next_acknowledged())["payload"]["event"] for _ in range(2)]
    assert changed["message"]["files"] == [{"id": file_id, "mode": "tombstone"}]
    assert (deleted["type"], deleted["channel_ids"]) == ("file_deleted", [world.general])
    for method in ("files.info", "files.delete"):
        assert await world.error(method, json={"file": file_id}) == "file_deleted"
    assert (await download(world, shared["files"][0]["url_private"]))[0] == 404


async def test_files_are_listed_newest_first_by_page_and_by_place(world: World) -> None:
    for number in range(3):
        file_id = await upload(world, b"x", f"{number}.txt")
        channel = world.general if number else "C00RANDOM"
        await world.client().files_completeUploadExternal(files=[{"id": file_id}], channel_id=channel)
    page = await world.client().files_list(count=2, page=1)
    assert [file["name"] for file in page["files"]] == ["2.txt", "1.txt"]
    assert page["paging"] == {"count": 2, "total": 3, "page": 1, "pages": 2}
    assert [file["name"] for file in (await world.client().files_list(count=2, page=2))["files"]] == ["0.txt"]
    placed = await world.client().files_list(channel="C00RANDOM")
    assert [file["name"] for file in placed["files"]] == ["0.txt"]
    assert (await world.client().files_list(user="U000ALICE"))["files"] == []
    assert (await world.client().files_list(ts_to="1000000000"))["files"] == []


async def test_a_failed_completion_shares_nothing(world: World) -> None:
    file_id = await upload(world, b"x")
    wanted = [
        ({"files": [{"id": file_id}, {"id": "F404"}], "channel_id": world.general}, "file_not_found"),
        ({"files": [{"id": file_id}], "channel_id": "C404"}, "channel_not_found"),
        ({"files": [{"id": file_id}], "channel_id": world.general, "thread_ts": "1000000000.0001"}, "thread_not_found"),
        ({"files": [], "channel_id": world.general}, "invalid_arguments"),
        ({"files": ["F1"], "channel_id": world.general}, "invalid_arguments"),
        ({"files": [{"id": 1}], "channel_id": world.general}, "invalid_arguments"),
        ({"files": [{"id": file_id}], "channels": ",".join(f"C{n}" for n in range(101))}, "channels_limit_exceeded"),
        ({"files": [{"id": file_id}], "channel_id": world.general, "blocks": [1]}, "invalid_blocks"),
    ]
    assert [(b, await world.error("files.completeUploadExternal", json=b)) for b, _ in wanted] == wanted
    assert await world.seen() == []
    await world.client().files_completeUploadExternal(files=[{"id": file_id}], channel_id=world.general)
    assert len(await world.seen()) == 1
    assert await world.error("files.completeUploadExternal", json={"files": [{"id": file_id}]}) == "file_not_found"


async def test_an_upload_that_makes_no_sense_is_not_begun(world: World) -> None:
    wrong = [
        ({"filename": "a", "length": 0}, "missing_argument"),
        ({"filename": "a", "length": "many"}, "invalid_arguments"),
        ({"length": 1}, "invalid_arguments"),
        ({"filename": "a", "length": 1, "alt_txt": "x" * 1_001}, "alt_txt_too_large"),
        ({"filename": "a", "length": 2_000_000, "snippet_type": "python"}, "snippet_too_large"),
        ({"filename": "a", "length": 10**12}, "file_upload_size_restricted"),
    ]
    assert [(b, await world.error("files.getUploadURLExternal", json=b)) for b, _ in wrong] == wrong
    assert await world.error("files.info", json={"file": "F404"}) == "file_not_found"
    assert await world.error("files.list", json={"user": "U404"}) == "user_not_found"


async def test_the_oldest_content_goes_when_files_take_too_much_memory(world: World) -> None:
    files = world.twin.workspace.files
    files.cap_bytes = 100
    urls = []
    for number in range(6):
        file_id = await upload(world, bytes([number]) * 100, f"{number}.bin")
        completed = await world.client().files_completeUploadExternal(files=[{"id": file_id}], channel_id=world.general)
        urls.append(completed["files"][0]["url_private"])
        await world.advance(1)
    assert [(await download(world, url))[0] for url in urls] == [404, 404, 200, 200, 200, 200]
    assert [message["files"][0]["size"] for message in await world.seen()] == [100] * 6


async def test_a_person_shares_files_of_any_bytes(world: World) -> None:
    await world.say("alice", "", files=[{"name": "a.bin", "content_base64": "AP8="}])
    (message,) = (await world.client().conversations_history(channel=world.general))["messages"]
    assert await download(world, message["files"][0]["url_private_download"]) == (200, b"\x00\xff")
    body = {"user": "alice", "channel": "general", "files": [{"name": "a.bin", "content_base64": "?"}]}
    assert (await world.control("POST", "messages", body))[0] == 422


async def test_what_files_answer_and_tell_has_the_shape_of_the_recorded(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    other = await world.line("xapp-twin-other")
    client = world.client()
    announced = await client.files_getUploadURLExternal(filename="a.txt", length=1, alt_txt="a letter")
    await send(world, announced["upload_url"], b"x")
    shared_as: dict[str, Any] = {"files": [{"id": announced["file_id"]}], "channel_id": world.general}
    completed: Any = (await client.files_completeUploadExternal(**shared_as)).data
    await client.files_delete(file=announced["file_id"])
    _, shared, _, deleted = [(await other.next_acknowledged())["payload"] for _ in range(4)]
    public = completed["files"][0]["shares"]["public"]
    public["C00000000"] = public.pop(world.general)
    for sent, name in (
        (announced.data, "api/files.getUploadURLExternal.json"),
        (completed, "api/files.completeUploadExternal.json"),
        (shared, "events/FileSharedPayload.json"),
        (deleted, "events/FileDeletedPayload.json"),
    ):
        assert (name, differences(sent, sample(name))) == (name, [])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("notes.txt", ("text", "Plain Text")),
        ("main.py", ("python", "Python")),
        ("picture.JPEG", ("jpg", "JPEG")),
        ("data.json", ("javascript", "JavaScript/JSON")),
        ("Dockerfile", ("dockerfile", "Docker")),
        ("README", ("binary", "Binary")),
        ("core.xyz", ("binary", "Binary")),
    ],
)
async def test_a_file_has_slacks_names_for_its_kind(world: World, name: str, kind: tuple[str, str]) -> None:
    file_id = await upload(world, b"x", name)
    (file,) = (await world.client().files_completeUploadExternal(files=[{"id": file_id}]))["files"]
    assert (file["filetype"], file["pretty_type"]) == kind


async def test_a_files_permalink_opens_the_page_where_it_is_shared(world: World) -> None:
    ts = await world.say("alice", "look", files=[{"name": "a b.txt", "content": "x"}])
    (said,) = (await world.client().conversations_history(channel=world.general))["messages"]
    link = said["files"][0]["permalink"]
    assert link == f"{world.base}files/U000ALICE/F00000001/a%20b.txt"
    async with world.http.get(link, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (307, f"/#{world.general}/{ts}")
