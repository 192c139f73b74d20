"""The apps' responses to people's actions, in the acknowledgement or by a response URL: new and updated messages.

https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
"""

from dataclasses import replace

from slack_twin.arguments import Arguments
from slack_twin.drafts import read_draft
from slack_twin.errors import Json, SlackError
from slack_twin.people import App, Channel
from slack_twin.response_urls import ResponseUrl
from slack_twin.workspace import Draft, Workspace


class Responses:
    """Applies responses to the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def by_url(self, path: str, body: Json) -> None:
        """Applies an app's post to a response URL.

        Raises SlackError: `no_such_url`, `expired_url`, `used_url`, `message_not_found` if there is no original, and
        the errors of a message.
        """
        url = self._workspace.response_urls.use(path)
        directory, args = self._workspace.directory, Arguments(body)
        app, channel = directory.apps.get(url.app_id), directory.channels.get(url.channel_id)
        if app is None or channel is None:
            raise SlackError("no_such_url")
        if args.flag("delete_original"):
            self._delete(url, channel)
        elif args.flag("replace_original"):
            self._replace(url, channel, read_draft(args, app))
        else:
            self.post(app, url.user_id, channel, body)

    def post(self, app: App, user_id: str, channel: Channel, body: Json) -> None:
        """Posts a new message, ephemeral unless it is `in_channel`. Raises the errors of a message."""
        args = Arguments(body)
        draft = read_draft(args, app)
        match args.optional("response_type", "ephemeral"):
            case "ephemeral":
                self._workspace.post_ephemeral(channel, to=user_id, draft=draft)
            case "in_channel":
                self._workspace.post(channel, draft)
            case _:
                raise SlackError("invalid_response_type")

    def _delete(self, url: ResponseUrl, channel: Channel) -> None:
        original = self._workspace.ephemerals.get(url.user_id, channel.id, url.message_ts or "")
        if original is not None:
            self._workspace.remove_ephemeral(channel, original, seen_by=url.user_id)
        else:
            self._workspace.delete(channel, self._workspace.message(channel, url.message_ts or ""))

    def _replace(self, url: ResponseUrl, channel: Channel, draft: Draft) -> None:
        ts = url.message_ts or ""
        if self._workspace.ephemerals.get(url.user_id, channel.id, ts) is not None:
            self._workspace.post_ephemeral(channel, to=url.user_id, draft=draft, ts=ts)
            return
        previous = self._workspace.message(channel, ts)
        changed = replace(previous, text=draft.text, blocks=draft.blocks, attachments=draft.attachments)
        self._workspace.edit(channel, previous, changed)
