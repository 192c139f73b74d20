"""What the twin refuses, in the two languages it speaks: Slack's error codes and the control API's."""

Json = dict[str, object]


class SlackError(Exception):
    """A Web API method answers `{"ok": false, "error": code}` with HTTP 200, as Slack does."""

    def __init__(self, code: str, *, messages: list[str] | None = None, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields: Json = dict(fields)
        if messages:
            self.fields["response_metadata"] = {"messages": messages}


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
