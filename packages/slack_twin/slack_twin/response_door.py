"""The endpoint of response URLs: `/actions/…`, `/commands/…` and `/app/…`, as at hooks.slack.com."""

from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from slack_twin.answers import json_response
from slack_twin.arguments import limited_body, loads
from slack_twin.errors import Json, SlackError
from slack_twin.responses import Responses

_GONE = ("no_such_url", "expired_url", "used_url")


def response_routes(responses: Responses) -> list[Route]:
    """Returns one route for each kind of URL."""

    async def endpoint(request: Request) -> Response:
        """Returns `{"ok": true}`; 404 for an expired or unknown URL, 400 for any other error."""
        try:
            responses.by_url(request.url.path.removeprefix("/"), read_payload(await limited_body(request)))
        except SlackError as refusal:
            status = 404 if refusal.code in _GONE else 400
            return json_response({"ok": False, "error": refusal.code} | refusal.fields, status)
        except ClientDisconnect:
            return Response()
        return json_response({"ok": True})

    return [Route(f"/{kind}/{{secret}}", endpoint, methods=["POST"]) for kind in ("actions", "commands", "app")]


def read_payload(raw: bytes) -> Json:
    """Returns the JSON object in the body or in the form field `payload`. Raises SlackError `invalid_payload`."""
    try:
        text = raw.decode("utf-8")
        if text.startswith("payload="):
            text = parse_qs(text, max_num_fields=100)["payload"][0]
        value = loads(text)
    except (ValueError, KeyError):
        raise SlackError("invalid_payload") from None
    if not isinstance(value, dict):
        raise SlackError("invalid_payload")
    return value
