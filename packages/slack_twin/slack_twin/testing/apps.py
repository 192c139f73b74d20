"""An app installed in the workspace: its ids and credentials."""

from dataclasses import dataclass, field

from slack_twin import people
from slack_twin.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class InstalledApp:
    """The ids and credentials of an app."""

    name: str  # also the name of its bot: people mention it as `@name`
    id: str
    bot_id: str
    bot_user: str  # the user id of the bot
    bot_token: str = field(repr=False)
    app_token: str = field(repr=False)
    signing_secret: str = field(repr=False)
    request_url: str | None  # the URL for signed HTTP; None: the app uses Socket Mode
    webhook_urls: tuple[str, ...] = field(default=(), repr=False)


def installed(app: people.App, workspace: Workspace) -> InstalledApp:
    return InstalledApp(
        name=app.name,
        id=app.id,
        bot_id=app.bot_id,
        bot_user=app.bot_user,
        bot_token=app.bot_token,
        app_token=app.app_token,
        signing_secret=app.signing_secret,
        request_url=app.request_url,
        webhook_urls=tuple(workspace.base_url + one.path for one in workspace.webhooks.of(app.id)),
    )
