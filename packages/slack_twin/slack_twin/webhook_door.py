"""The endpoint of incoming webhooks: `POST /services/T…/B…/…`, which answers in plain text like hooks.slack.com.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors
"""

from dataclasses import replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from slack_twin.arguments import Arguments, limited_body
from slack_twin.drafts import read_draft
from slack_twin.errors import Json, SlackError
from slack_twin.journal import Call
from slack_twin.people import App, Channel
from slack_twin.response_door import read_payload
from slack_twin.twin import Twin

METHOD = "incoming-webhook"  # the name in the journal of calls
# The webhook's error for each error of the workspace.
_NAMES = {"is_archived": "channel_is_archived", "invalid_arguments": "invalid_payload"}
_STATUS = {"no_service": 404, "channel_not_found": 404, "channel_is_archived": 410, "rate_limited": 429}


def webhook_routes(twin: Twin) -> list[Route]:
    return [Route("/services/{team}/{bot}/{secret}", WebhookDoor(twin).receive, methods=["POST"])]


class WebhookDoor:
    """Posts the request as a message of the app; the request cannot select another channel or name."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin

    async def receive(self, request: Request) -> Response:
        """Returns `ok`, or the name of an error with status 400, 404, 410 or 429."""
        record = Call(at=self._twin.clock.now(), app=None, method=METHOD, args={}, ok=True, error=None, status=200)
        headers: dict[str, str] = {}
        try:
            raw = await limited_body(request)
            app, channel = self._owner(request.url.path.removeprefix("/"))
            record.app = app.name
            record.args = read_payload(raw)
            if wait := self._twin.limits.retry_post_after(app.id, request.url.path):
                headers["Retry-After"] = str(wait)
                raise SlackError("rate_limited")
            self._post(app, channel, record.args)
        except SlackError as refusal:
            record.ok, record.error = False, _NAMES.get(refusal.code, refusal.code)
            record.status = _STATUS.get(record.error, 400)
        except ClientDisconnect:
            return Response()
        self._twin.web_api.journal.add(record)
        return PlainTextResponse(record.error or "ok", record.status, headers)

    def _owner(self, path: str) -> tuple[App, Channel]:
        """Returns the webhook's app and channel. Raises `no_service`, `channel_not_found`."""
        webhook, directory = self._twin.workspace.webhooks.get(path), self._twin.workspace.directory
        app = directory.apps.get(webhook.app_id) if webhook else None
        if webhook is None or app is None:
            raise SlackError("no_service")
        channel = directory.channels.get(webhook.channel_id)
        if channel is None:
            raise SlackError("channel_not_found")
        return app, channel

    def _post(self, app: App, channel: Channel, body: Json) -> None:
        """Posts the message. Raises the errors of a message."""
        draft = replace(read_draft(Arguments(body), app), username=None, subtype="bot_message")
        self._twin.workspace.post(channel, draft)
