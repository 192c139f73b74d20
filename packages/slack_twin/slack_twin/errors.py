"""What the twin refuses, in the two languages it speaks: Slack's error codes and the control API's."""

from collections.abc import Sequence

Json = dict[str, object]


class SlackError(Exception):
    """A Web API method answers `{"ok": false, "error": code}` with HTTP 200, as Slack does."""

    def __init__(self, code: str, *, messages: list[str] | None = None, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields: Json = dict(fields)
        if messages:
            self.fields["response_metadata"] = {"messages": messages}


# What Slack explains of a warning, beside its name.
_EXPLAINED = {
    "message_truncated": "[WARN] Your message was truncated but still posted."
    " The `text` field accepts up to 40,000 characters.",
}


def with_warnings(body: Json, warnings: Sequence[str]) -> Json:
    """An answer of the Web API with what Slack remarks about the request.

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
    """The control API refuses a request with `status` and an explanation a person can act on."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint

    def body(self) -> Json:
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}
