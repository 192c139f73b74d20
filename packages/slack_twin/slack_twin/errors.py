"""The errors of the Web API, with Slack's codes, and of the control API."""

from collections.abc import Sequence

Json = dict[str, object]


class SlackError(Exception):
    """A Web API error: `{"ok": false, "error": code}` with HTTP 200, as in Slack."""

    def __init__(self, code: str, *, messages: list[str] | None = None, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields: Json = dict(fields)
        if messages:
            self.fields["response_metadata"] = {"messages": messages}


# Slack's explanations of warnings, by code.
_EXPLAINED = {
    "message_truncated": "[WARN] Your message was truncated but still posted."
    " The `text` field accepts up to 40,000 characters.",
}


def with_warnings(body: Json, warnings: Sequence[str]) -> Json:
    """Adds Slack's warnings about the request to a Web API response.

    https://docs.slack.dev/apis/web-api/#responses
    """
    if not warnings:
        return body
    known = body.get("response_metadata")
    metadata: Json = dict(known) if isinstance(known, dict) else {}
    metadata["warnings"] = list(warnings)
    if explained := [_EXPLAINED[name] for name in warnings if name in _EXPLAINED]:
        metadata["messages"] = explained
    return body | {"warning": ",".join(warnings), "response_metadata": metadata}


class ControlError(Exception):
    """A control API error with an HTTP `status` and an explanation that tells the caller what to do."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint

    def body(self) -> Json:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}
