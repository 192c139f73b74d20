"""The askers that poll: one whose work waits without a lease, and one that keeps its lease while people decide."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx2

from tests.decisions.journal import Journal, command_in, paths_of
from tests.decisions.remote import held
from tests.support.doors import Visitor

_SCHEMA: Final = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_DECISIONS: Final = ["approve", "edit", "reject", "approve_thread"]
_PAUSE_SECONDS: Final = 0.1
_ASK_SECONDS: Final = 5.0
_RENEW_SECONDS: Final = 15.0


class Poller:
    """An agent that asks before it acts. It goes on while the coordinator is away."""

    def __init__(self, visitor: Visitor, journal: Journal, *, is_live: bool) -> None:
        self._visitor = visitor
        self._journal = journal
        self._is_live = is_live
        self._works: set[asyncio.Task[None]] = set()
        self._leases: set[str] = set()

    async def serve(self) -> None:
        """Polls until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._renew())
            while True:
                for trigger in await self._polled():
                    work = group.create_task(self._work(trigger))
                    self._works.add(work)
                    work.add_done_callback(self._works.discard)

    async def _polled(self) -> list[dict[str, Any]]:
        try:
            return await self._visitor.poll(wait_seconds=5, limit=20)
        except (httpx2.HTTPError, AssertionError):
            await asyncio.sleep(_PAUSE_SECONDS)
            return []

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            if self._leases:
                await self._repeated("POST", "/leases/renew", json={"tokens": sorted(self._leases)})

    async def _work(self, trigger: dict[str, Any]) -> None:
        token = trigger["lease"]["token"]
        if trigger["kind"] != "slack_inbox_message":
            await self._finish(token, "done")
            return
        self._leases.add(token)
        try:
            await self._answer(trigger, token)
        finally:
            self._leases.discard(token)

    async def _answer(self, trigger: dict[str, Any], token: str) -> None:
        messages = trigger["inbox_messages"]
        message_id = messages[0]["id"]
        command, cell = command_in(messages[0]["text"])
        decided = trigger.get("requests") or []
        if not decided:
            self._journal.heard(cell, command)
        if command == "wait":
            await held(self._journal, cell)
        paths = [cell] if command == "form" else paths_of(command, cell)
        if paths and (self._is_live or not decided):
            asked = [await self._ask(path, message_id, token, is_form=command == "form") for path in paths]
            if not self._is_live and any(one["status"] == "open" for one in asked):
                return  # it comes again; a grant would have decided at once
            decided = [await self._ended(one["id"]) for one in asked]
        outcomes = [self._acts(one, cell) for one in decided]
        if all(outcomes):
            await self._reply(message_id, token, f"I have read {command} {cell}.")
        else:
            await self._finish(token, "failed")

    async def _ask(self, path: str, message_id: str, token: str, *, is_form: bool) -> dict[str, Any]:
        """Asks for a call or for a word; the request's id and status."""
        about: dict[str, Any] = {"inbox_message_id": message_id, "wait": self._is_live, "request_id": path}
        if is_form:
            about |= {"title": "Which word?", "fields": [{"name": "word", "required": True}]}
            about |= {"decisions": ["answer", "reject"]}
        else:
            tool = {"name": "act", "arguments": {"path": path}, "schema": _SCHEMA}
            about |= {"title": "May I?", "decisions": _DECISIONS, "tool": tool}
        return await self._visitor.uses("request-human-input", token, **about)

    async def _ended(self, request_id: str) -> dict[str, Any]:
        while True:
            request = await self._repeated("GET", f"/requests/{request_id}?wait_seconds={_ASK_SECONDS:g}")
            if request and request["status"] != "open":
                return request

    def _acts(self, request: dict[str, Any], cell: str) -> bool:
        """Notes a decision, and makes the call if it is approved; False if the agent fails instead."""
        path = str(request["tool"]["arguments"]["path"]) if request.get("tool") else cell
        edited = next((one["arguments"] for one in request["answers"] if one.get("arguments")), None)
        values = next((one["values"] for one in request["answers"] if one.get("values")), None)
        word = "edited" if edited else f"answered {values['word']}" if values else request["status"]
        self._journal.got(path, word)
        if self._journal.takes_failure(cell):
            return False
        if request["status"] == "approved":
            self._journal.ran(edited["path"] if edited else path)
        return True

    async def _reply(self, message_id: str, token: str, text: str) -> None:
        try:
            await self._visitor.tool("slack-reply", token, inbox_message_id=message_id, message=text)
        except (httpx2.HTTPError, AssertionError, ExceptionGroup):
            return  # it comes again

    async def _finish(self, token: str, outcome: str) -> None:
        await self._repeated("POST", "/leases/finish", json={"tokens": [token], "outcome": outcome, "reason": "done"})

    async def _repeated(self, method: str, path: str, **request: Any) -> dict[str, Any] | None:
        """A call that is made again while the coordinator is away; None if it refuses."""
        while True:
            try:
                answer = await self._visitor.ask(method, path, **request)
            except httpx2.HTTPError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if answer.status_code < 500:
                found: dict[str, Any] | None = answer.json() if answer.is_success and answer.content else None
                return found
            await asyncio.sleep(_PAUSE_SECONDS)
