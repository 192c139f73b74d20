"""A Slack that answers as the twin never would."""

from __future__ import annotations

from aiohttp import web

AUTH = {"ok": True, "team_id": "T1", "user_id": "UBOT", "bot_id": "BBOT", "url": "https://x.test/"}


class ScriptedSlack:
    """Gives each method the answer that it was told to, and notes the calls."""

    def __init__(self) -> None:
        self.answers: dict[str, web.Response | dict[str, object] | int] = {"auth.test": AUTH}
        self.calls: list[tuple[str, dict[str, object]]] = []
        self.verbs: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = dict(request.query) if request.method == "GET" else await request.json()
        self.verbs.append(request.method)
        self.calls.append((method, arguments))
        answer = self.answers[method]
        if isinstance(answer, int):
            return web.Response(status=answer)
        return answer if isinstance(answer, web.Response) else web.json_response(answer)
