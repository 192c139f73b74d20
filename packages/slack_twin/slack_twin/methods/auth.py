"""api.test, auth.test and apps.connections.open."""

from slack_twin.directory import TEAM_ID, TEAM_NAME
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method, TokenKind


def test(call: Call) -> Json:
    """Returns the identity of the token."""
    app = call.app
    return {
        "url": call.base_url,
        "team": TEAM_NAME,
        "user": app.name,
        "team_id": TEAM_ID,
        "user_id": app.bot_user,
        "bot_id": app.bot_id,
        "is_enterprise_install": False,
    }


def revoke(call: Call) -> Json:
    """Revokes the bot token of the call; with `test`, only answers."""
    is_test = call.args.flag("test")
    if not is_test:
        call.directory.revoke(call.app.bot_token)
    return {"revoked": not is_test}


def test_api(call: Call) -> Json:
    """Returns the arguments, and fails with the argument `error` if it is present."""
    args = call.args.visible()
    if "error" in args:
        raise SlackError(call.args.text("error"), args=args)
    return {"args": args} if args else {}


def open_connection(call: Call) -> Json:
    """Returns a WebSocket URL for one connection."""
    return {"url": call.open_socket(call.app)}


METHODS = (
    Method(name="api.test", handle=test_api, tier=Tier.TIER_4, token=TokenKind.NONE),
    Method(name="auth.test", handle=test, tier=Tier.SPECIAL, token=TokenKind.EITHER),
    Method(name="auth.revoke", handle=revoke, tier=Tier.TIER_3),
    Method(name="apps.connections.open", handle=open_connection, tier=Tier.TIER_4, token=TokenKind.APP),
)
