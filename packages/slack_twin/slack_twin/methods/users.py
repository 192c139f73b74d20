"""users.*: the people of the workspace."""

from slack_twin import shapes
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.methods.conversations import wanted_kinds
from slack_twin.methods.paging import page
from slack_twin.people import Channel, User


def info(call: Call) -> Json:
    """Returns a user. Raises `user_not_found`."""
    return {"user": _shape(call, _user(call, call.args.text("user")))}


def profile(call: Call) -> Json:
    """Returns the profile of a person, or of the bot itself. Raises `user_not_found`."""
    shape = _shape(call, _user(call, call.args.optional("user") or call.app.bot_user))
    return {"profile": shape["profile"]}


def list_users(call: Call) -> Json:
    people, metadata = page(list(call.directory.users.values()), call.args, default=1000)
    return {
        "members": [_shape(call, person) for person in people],
        "cache_ts": int(call.workspace.clock.now()),
    } | metadata


def lookup_by_email(call: Call) -> Json:
    """Returns the user with an e-mail address. Raises `users_not_found`."""
    person = call.directory.user_by_email(call.args.text("email"))
    if person is None:
        raise SlackError("users_not_found")
    return {"user": _shape(call, person)}


def conversations(call: Call) -> Json:
    """Returns the conversations of a user, or of the bot itself."""
    user_id = call.args.optional("user") or call.app.bot_user
    _user(call, user_id)
    kinds = wanted_kinds(call)
    joined = [
        channel
        for channel in call.directory.channels.values()
        if channel.kind in kinds
        and user_id in channel.members
        and (channel.kind.value == "channel" or call.app.bot_user in channel.members)
        and not (channel.is_archived and call.args.flag("exclude_archived"))
    ]
    channels, metadata = page(joined, call.args)
    return {"channels": [_joined(channel, call.app.bot_user) for channel in channels]} | metadata


def get_presence(call: Call) -> Json:
    """Returns whether a user is active; for the bot itself, also why. Raises `user_not_found`."""
    user_id = call.args.optional("user") or call.app.bot_user
    is_away = _user(call, user_id).id in call.directory.away
    own: Json = {"online": True, "auto_away": False, "manual_away": is_away, "connection_count": 1}
    return {"presence": "away" if is_away else "active"} | (own if user_id == call.app.bot_user else {})


def set_presence(call: Call) -> Json:
    """Sets the presence of the bot user. Raises `invalid_presence`."""
    presence = call.args.text("presence")
    if presence not in ("auto", "away"):
        raise SlackError("invalid_presence")
    change = call.directory.away.add if presence == "away" else call.directory.away.discard
    change(call.app.bot_user)
    return {}


def _joined(channel: Channel, viewer: str) -> Json:
    """Returns a conversation without `is_member`, because Slack omits it here: every listed conversation is joined."""
    return {key: value for key, value in shapes.channel(channel, viewer).items() if key != "is_member"}


def _user(call: Call, user_id: str) -> User:
    person = call.directory.users.get(user_id)
    if person is None:
        raise SlackError("user_not_found")
    return person


def _shape(call: Call, person: User) -> Json:
    """Returns a user object, without the e-mail address if the app may not see it."""
    shape = shapes.user(person, call.directory)
    profile = shape["profile"]
    if "users:read.email" not in call.app.scopes and isinstance(profile, dict):
        profile.pop("email", None)
    return shape


METHODS = (
    Method(name="users.info", handle=info, tier=Tier.TIER_4, scopes=("users:read",)),
    Method(name="users.profile.get", handle=profile, tier=Tier.TIER_4, scopes=("users.profile:read",)),
    Method(name="users.getPresence", handle=get_presence, tier=Tier.TIER_3, scopes=("users:read",)),
    Method(name="users.setPresence", handle=set_presence, tier=Tier.TIER_2, scopes=("users:write",)),
    Method(name="users.list", handle=list_users, tier=Tier.TIER_2, scopes=("users:read",)),
    Method(name="users.lookupByEmail", handle=lookup_by_email, tier=Tier.TIER_3, scopes=("users:read.email",)),
    Method(
        name="users.conversations",
        handle=conversations,
        tier=Tier.TIER_3,
        scopes=("channels:read", "groups:read", "im:read", "mpim:read"),
    ),
)
