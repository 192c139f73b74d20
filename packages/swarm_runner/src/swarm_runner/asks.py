"""The CLI's permissions and questions as requests to people in the thread.

The run keeps its lease while people decide. Nothing is trusted by default: without a decision, in a thread where nobody
can be asked, or after the time is over, the answer is no. Grants are kept by the coordinator, which answers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from swarm_base.schema_forms import fields_of, json_text
from swarm_base.secrets import without_secrets
from swarm_runner.coordinator import CoordinatorConnection, Refused
from swarm_runner.output import repeated
from swarm_runner.port import CliSession, PermissionAsked, QuestionAsked

_EXPIRES_SECONDS: Final = 24 * 3600
_LONG_NAME: Final = 100  # characters of a tool's name, which the coordinator refuses
_GIVEN: Final = ("approved", "answered")
_LOGGED_CHARACTERS: Final = 500  # of a question


class HumanAsks:
    """Asks people about one piece of work. ``about`` names the inbox message or the task.

    ``log`` takes the lines of the run's log: what is asked, and what comes of it.
    """

    def __init__(
        self,
        coordinator: CoordinatorConnection,
        lease_token: str,
        about: Mapping[str, str],
        run: str,
        log: Callable[[str], None],
    ) -> None:
        self._coordinator = coordinator
        self._lease_token = lease_token
        self._about = dict(about)
        self._run = run  # names the questions of this run
        self._log = log
        self._count = 0
        self.not_asked = ""  # why people could not be asked, the last time
        self._in_order = asyncio.Lock()  # what a CLI asks at once is shown in the order in which it asks

    async def permission(self, session: CliSession, asked: PermissionAsked) -> bool:
        """Asks for a permission and tells the CLI. Returns False if it was not given. If the question was withdrawn,
        because the work is over, the turn is cancelled: a refusal would let the CLI go on with other tools.

        People see the whole call. The coordinator refuses one that is too long to be read, and so it is not permitted.
        """
        if not asked.is_whole:
            self.not_asked = "the call is too long to be shown"
            self._log(f"[cancelled] {asked.tool}: {self.not_asked}")
            await session.permit(asked.id, allowed=False, reason=_refusal({"why": self.not_asked}))
            return False
        what_it_does = {"diffs": [asdict(diff) for diff in asked.diffs], "locations": list(asked.locations)}
        grants = ["approve_thread", "approve_always"]
        ended = await self._decision(
            title="May I use a tool?" if len(asked.tool) > _LONG_NAME else f"May I use {asked.tool}?",
            prompt=asked.title,
            decisions=["approve", *grants, "reject"],
            tool={"name": asked.tool, "arguments": dict(asked.arguments), **what_it_does},
        )
        is_given = ended["status"] in _GIVEN
        if ended["id"] and ended["status"] == "cancelled":
            await session.cancel()
            return True
        await session.permit(asked.id, allowed=is_given, reason="" if is_given else _refusal(ended))
        return is_given

    async def question(self, session: CliSession, asked: QuestionAsked) -> None:
        """Asks people for values and tells the CLI."""
        fields = [_field(asdict(field)) for field in fields_of(asked.schema)]
        decisions = ["answer", "reject"] if fields else ["approve", "reject"]
        ended = await self._decision(title="A question", prompt=asked.message, fields=fields, decisions=decisions)
        values = next((dict(one["values"]) for one in ended.get("answers", ()) if one.get("values")), {})
        await session.answer(asked.id, values if ended["status"] in _GIVEN else None)

    async def budget(self, run_id: str, exceeded: Mapping[str, Any]) -> str:
        """Asks for more of a budget, which an approval raises. Returns why the work may not go on; empty if it may.

        The coordinator writes the question, so that people see what they approve.
        """
        scope, unit = str(exceeded["scope"]), str(exceeded["unit"])
        logged = self._asked(f"May I use more of the budget of the {scope}?")
        try:
            asked = await repeated(lambda: self._coordinator.ask_budget(run_id, scope, unit))
            status = (await self._ended(asked, logged))["status"] if asked else "approved"
        except Refused as error:
            self._log(f"[cancelled] {logged}: {error.message}")
            return f"people cannot be asked for more: {error.message}"
        if status == "approved":
            return ""
        return "people have not approved more" if status == "rejected" else f"nobody has approved more ({status})"

    async def _decision(self, *, title: str, prompt: str, **asked: object) -> dict[str, Any]:
        """Returns the ended request, or one that counts as cancelled if people cannot be asked."""
        self._count += 1
        question = {
            "title": title,
            "prompt": prompt,
            "request_id": f"{self._run}-ask-{self._count}",
            "expires_seconds": _EXPIRES_SECONDS,
            "wait": True,
        }
        logged = self._asked(f"{title} {prompt or json_text(asked.get('tool', ''))}")
        if not self._about:
            self._log(f"[cancelled] {logged}: nobody can be asked without a thread")
            return {"id": "", "status": "cancelled"}
        try:
            call = self._coordinator.call
            async with self._in_order:
                made = await repeated(
                    lambda: call("request-human-input", self._lease_token, **self._about, **question, **asked)
                )
            return await self._ended(str(made["id"]), logged)
        except Refused as error:
            self._log(f"[cancelled] {logged}: {error.message}")
            self.not_asked = error.message.rstrip(".")
            return {"id": "", "status": "cancelled", "why": error.message}

    async def _ended(self, request_id: str, logged: str) -> dict[str, Any]:
        while True:
            request = await repeated(lambda: self._coordinator.request(request_id))
            if request["status"] != "open":
                people = ", ".join(str(answer["person"]) for answer in request.get("answers", ()))
                self._log(f"[{request['status']}] {logged}{f' (by {people})' if people else ''}")
                return request

    def _asked(self, question: str) -> str:
        """Logs a question. Returns it as one line of limited length."""
        line = without_secrets(" ".join(question.split()))
        line = line if len(line) <= _LOGGED_CHARACTERS else line[: _LOGGED_CHARACTERS - 1] + "…"
        self._log(f"[asked] {line}")
        return line


def _field(field: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in field.items() if value not in (None, "", ())}


def _refusal(ended: Mapping[str, Any]) -> str:
    if why := ended.get("why"):
        return f"People cannot be asked: {why}"
    return "People refused it." if ended["status"] == "rejected" else f"Nobody allowed it ({ended['status']})."
