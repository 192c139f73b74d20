"""JSON responses of the control API and the page."""

from collections.abc import Awaitable, Callable

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from slack_twin.errors import ControlError, Json, SlackError

Handler = Callable[[Request], Awaitable[Json]]

# Errors of the workspace and their HTTP status in the control API.
_STATUS = {
    "message_not_found": 404,
    "thread_not_found": 404,
    "already_reacted": 409,
    "no_reaction": 409,
    "nothing_to_stop": 409,
    "invalid_name": 422,
}


def json_response(body: Json, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status_code=status, media_type="application/json")


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Returns an endpoint that sends the result of `handler`, or the error that it raises."""

    async def endpoint(request: Request) -> Response:
        try:
            return json_response(await handler(request))
        except ControlError as refusal:
            return json_response(refusal.body(), refusal.status)
        except SlackError as refusal:
            error = ControlError(_STATUS.get(refusal.code, 422), refusal.code, refusal.code.replace("_", " "))
            return json_response(error.body(), error.status)
        except ClientDisconnect:
            return Response()  # the client has disconnected

    return endpoint
