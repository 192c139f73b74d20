"""oauth.v2.access: exchanges a code for a token, the last step of installing an app.

https://docs.slack.dev/authentication/installing-with-oauth
"""

from slack_twin.directory import TEAM_ID, TEAM_NAME
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method, TokenKind
from slack_twin.people import App


def access(call: Call) -> Json:
    """Returns the app's token for its secret and a code, which is valid once within ten minutes.

    Raises `invalid_client_id`, `bad_client_secret`, `invalid_code`, `code_already_used`, `bad_redirect_uri`.
    """
    app = _client(call)
    grant = call.workspace.grants.use(
        call.args.text("code"), app_id=app.id, redirect_uri=call.args.optional("redirect_uri")
    )
    answer: Json = {
        "access_token": app.bot_token,
        "token_type": "bot",
        "scope": ",".join(sorted(app.scopes)),
        "bot_user_id": app.bot_user,
        "app_id": app.id,
        "team": {"id": TEAM_ID, "name": TEAM_NAME},
        "enterprise": None,
        "is_enterprise_install": False,
        "authed_user": {"id": grant.user_id},
    }
    return answer | _webhook(call, app)


def _client(call: Call) -> App:
    client_id, secret = call.args.optional("client_id"), call.args.optional("client_secret")
    app = next((app for app in call.directory.apps.values() if app.client_id == client_id), None)
    if app is None:
        raise SlackError("invalid_client_id")
    if secret != app.client_secret:
        raise SlackError("bad_client_secret")
    return app


def _webhook(call: Call, app: App) -> Json:
    """Returns the webhook that is installed with the app, if there is one."""
    for webhook in call.workspace.webhooks.of(app.id):
        channel = call.directory.channels.get(webhook.channel_id)
        shape = {
            "channel": f"#{channel.name}" if channel else "",
            "channel_id": webhook.channel_id,
            "configuration_url": call.base_url,
            "url": f"{call.base_url}{webhook.path}",
        }
        return {"incoming_webhook": shape}
    return {}


METHODS = (Method(name="oauth.v2.access", handle=access, tier=Tier.TIER_4, token=TokenKind.NONE),)
