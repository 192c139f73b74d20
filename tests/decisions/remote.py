"""The askers that are reached over HTTP: agents that speak AG-UI in its two forms, and CAIPE's service in its two."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.decisions.journal import EARLY, Journal, cell_of, command_in, paths_of
from tests.support import caipe

_ARGUMENTS: Final = {"type": "object", "properties": {"path": {"type": "string"}}}
_APPROVAL: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": _ARGUMENTS},
    "required": ["approved"],
}
_WORD: Final = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
_OUT_OF_LUCK: Final = "out of luck"
NOBODY_DECIDED: Final = "obody decided in time"


async def held(journal: Journal, cell: str) -> None:
    """Waits until the cell goes on."""
    while not journal.may_go_on(cell):
        await asyncio.sleep(0.02)


class AguiAgent:
    """An agent that asks before it acts, and asks again when a message comes instead of an answer, as LangGraph's do.

    The older form of AG-UI has one interrupt in a run, so that a second question comes from the resumed run.
    """

    def __init__(self, journal: Journal, *, is_old: bool) -> None:
        self._journal = journal
        self._is_old = is_old
        self._second: set[str] = set()  # cells in which the resumed run asks again
        self._open: dict[str, tuple[list[str], bool]] = {}  # what is asked, and whether it is a form; by conversation

    def app(self) -> Starlette:
        """Returns the agent as a web application."""
        return Starlette(routes=[Route("/", self._run, methods=["POST"]), Route("/", self._alive)])

    async def _alive(self, request: Request) -> Response:
        return Response("here")

    async def _run(self, request: Request) -> Response:
        return StreamingResponse(self._events(await request.json()), media_type="text/event-stream")

    async def _events(self, run: dict[str, Any]) -> AsyncIterator[str]:
        ids = {"threadId": run["threadId"], "runId": run["runId"]}
        yield _event("RUN_STARTED", **ids)
        resume = run.get("resume") or []
        if resume and self._has_failed(resume):
            self._open.pop(run["threadId"], None)  # it has heard, and asks no more
            yield _event("RUN_ERROR", message=_OUT_OF_LUCK)
            return
        text, paths, is_form = (self._resumed(resume), *self._next(resume)) if resume else await self._told(run)
        self._open[run["threadId"]] = (paths, is_form)
        if paths:
            for event in self._asking(paths, is_form=is_form, ids=ids):
                yield event
            return
        yield _event("TEXT_MESSAGE_START", messageId=run["runId"], role="assistant")
        yield _event("TEXT_MESSAGE_CONTENT", messageId=run["runId"], delta=text)
        yield _event("TEXT_MESSAGE_END", messageId=run["runId"])
        yield _event("RUN_FINISHED", **ids)

    async def _told(self, run: dict[str, Any]) -> tuple[str, list[str], bool]:
        """Returns what the agent says to a message, or what it asks."""
        command, cell = command_in(str(run["messages"][-1].get("content")))
        open_paths, is_form = self._open.get(run["threadId"], ([], False))
        self._journal.heard(cell, EARLY.format(command=command) if open_paths else command)
        if open_paths:
            return "", open_paths, is_form
        if command == "wait":
            await held(self._journal, cell)
        if command == "twice" and self._is_old:
            self._second.add(cell)
        paths = [cell] if command == "form" else paths_of(command, cell, at_once=1 if self._is_old else 2)
        return f"I read: {command} {cell}.", paths, command == "form"

    def _has_failed(self, resume: list[dict[str, Any]]) -> bool:
        """Notes what came; whether the run is to fail."""
        for entry in resume:
            self._journal.got(path_of(entry), _word(entry))
        return self._journal.takes_failure(cell_of(path_of(resume[0])))

    def _resumed(self, resume: list[dict[str, Any]]) -> str:
        """Makes the calls that were approved."""
        for entry in resume:
            payload = _payload(entry)
            if _word(entry) in ("approved", "edited"):
                self._journal.ran((payload.get("editedArgs") or {}).get("path") or path_of(entry))
        return f"Done: {', '.join(map(_word, resume))}."

    def _next(self, resume: list[dict[str, Any]]) -> tuple[list[str], bool]:
        cell = cell_of(path_of(resume[0]))
        if cell not in self._second:
            return [], False
        self._second.remove(cell)
        return [f"{cell}-2"], False

    def _asking(self, paths: list[str], *, is_form: bool, ids: dict[str, str]) -> Iterator[str]:
        named = {path: f"{path}:{ids['runId']}" for path in paths}
        if self._is_old:
            (path,) = paths
            asked = {"id": named[path], "reason": "human_input", "payload": _old_payload(path, is_form=is_form)}
            yield _event("RUN_FINISHED", **ids, outcome="interrupt", interrupt=asked)
            return
        if not is_form:
            for path in paths:
                yield _event("TOOL_CALL_START", toolCallId=named[path], toolCallName="act")
                yield _event("TOOL_CALL_ARGS", toolCallId=named[path], delta=json.dumps({"path": path}))
                yield _event("TOOL_CALL_END", toolCallId=named[path])
        interrupts = [
            {"id": id, "reason": "input_required", "message": "Which word?", "responseSchema": _WORD}
            if is_form
            else {"id": id, "reason": "tool_call", "message": "May I?", "toolCallId": id, "responseSchema": _APPROVAL}
            for id in named.values()
        ]
        yield _event("RUN_FINISHED", **ids, outcome={"type": "interrupt", "interrupts": interrupts})


def path_of(entry: dict[str, Any]) -> str:
    """Returns the argument that an interrupt was about."""
    return str(entry["interruptId"]).partition(":")[0]


def _old_payload(path: str, *, is_form: bool) -> dict[str, Any]:
    if is_form:
        fields = [{"field_name": "word", "field_label": "Word", "field_type": "text", "required": True}]
        return {"prompt": "Which word?", "fields": fields, "agent": "old"}
    fields = [{"field_name": "approved", "field_type": "boolean", "required": True}]
    return {"prompt": "May I?", "fields": fields, "tool_name": "act", "tool_args": {"path": path}, "agent": "old"}


def _payload(entry: dict[str, Any]) -> dict[str, Any]:
    found = entry.get("payload")
    return found if isinstance(found, dict) else {}


def _word(entry: dict[str, Any]) -> str:
    """Returns what an entry of a resume says."""
    payload = _payload(entry)
    if "expired" in str(entry.get("metadata")) or NOBODY_DECIDED in str(payload.get("reason")):
        return "expired"
    if entry.get("status") == "cancelled":
        return "cancelled"
    if "word" in payload:
        return f"answered {payload['word']}"
    if payload.get("approved") is True:
        return "edited" if payload.get("editedArgs") else "approved"
    return "rejected" if payload.get("approved") is False else f"nothing of use: {payload}"


def _event(kind: str, **fields: object) -> str:
    return f"data: {json.dumps({'type': kind, **fields})}\n\n"


class CaipeService(caipe.Caipe):
    """CAIPE's service with a journal. Its old shape has one question in a run, so a second one comes from the resumed
    run.
    """

    def __init__(self, journal: Journal, shape: caipe.Shape) -> None:
        super().__init__(shape)
        self._journal = journal
        self._cells: dict[str, str] = {}  # by conversation
        self._second: set[str] = set()
        self._failed: set[str] = set()  # cells that have heard, and ask no more

    async def _taken(self, request: Request, kind: type[caipe.Start | caipe.Resume]) -> Response:
        body = await request.json()
        conversation = str(body.get("conversation_id"))
        if kind is not caipe.Start:
            return await self._taken_decision(request, kind, conversation, body)
        command, cell = command_in(caipe_message(body))
        self._cells[conversation] = cell
        asked = [] if cell in self._failed else self.asked.get(conversation, [])
        waiting = [str(call["args"].get("path", "")) for call in asked]
        self._journal.heard(cell, EARLY.format(command=command) if waiting else command)
        if any(waiting):
            return self._asks(conversation, waiting)
        if command == "wait":
            await held(self._journal, cell)
        is_old = self.shape is caipe.Shape.OLD
        self._second |= {cell} if is_old and command == "twice" else set()
        if paths := paths_of(command, cell, at_once=1 if is_old else 2):
            return self._asks(conversation, paths)
        return await super()._taken(request, kind)

    async def _taken_decision(
        self, request: Request, kind: type[caipe.Start | caipe.Resume], conversation: str, body: dict[str, Any]
    ) -> Response:
        cell = self._cells[conversation]
        for place, word in enumerate(_caipe_words(body)):
            self._journal.got(f"{cell}-2" if place else cell, word)
        if self._journal.takes_failure(cell):
            self._failed.add(cell)
            failed = _event("RUN_STARTED", runId="r", threadId=conversation), _event("RUN_ERROR", message=_OUT_OF_LUCK)
            return StreamingResponse(iter(failed), media_type="text/event-stream")
        before = len(self.ran)
        response = await super()._taken(request, kind)
        for arguments in self.ran[before:]:
            self._journal.ran(str(arguments["path"]))
        if cell in self._second:
            self._second.remove(cell)
            return self._asks(conversation, [f"{cell}-2"])
        return response

    def _asks(self, conversation: str, paths: list[str]) -> Response:
        calls = [{"name": "act", "args": {"path": path}} for path in paths]
        self.asked[conversation] = calls
        return StreamingResponse(caipe._asking(conversation, calls), media_type="text/event-stream")


def caipe_message(body: dict[str, Any]) -> str:
    """Returns the new message, without the thread that stands before it."""
    return str(body.get("message", "")).rpartition('">\n')[2]


def _caipe_words(body: dict[str, Any]) -> list[str]:
    """Returns what a resume says."""
    if "form_data" in body:
        return [_word_of_form(str(body["form_data"]))]
    data = json.loads(body["resume_data"])
    if data.get("type") == "form_input":
        return [_refusal(data) if data.get("dismissed") else f"answered {data['values'].get('repo')}"]
    return [_word_of_decision(one) for one in data.get("decisions") or [data]]


def _word_of_form(text: str) -> str:
    if text.startswith("User dismissed"):
        return "expired" if NOBODY_DECIDED in text else "rejected"
    values = json.loads(text)
    return f"answered {values['repo']}" if "repo" in values else "approved"


def _word_of_decision(decision: dict[str, Any]) -> str:
    match decision.get("decision"):
        case "approve":
            return "approved"
        case "edit":
            return "edited"
    return _refusal(decision)


def _refusal(said: dict[str, Any]) -> str:
    return "expired" if NOBODY_DECIDED in str(said.get("reason")) else "rejected"
