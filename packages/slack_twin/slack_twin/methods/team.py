"""team.info, bots.info and usergroups.*."""

from slack_twin import shapes
from slack_twin.directory import TEAM_ID
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method


def team_info(call: Call) -> Json:
    if call.args.optional("team", TEAM_ID) != TEAM_ID:
        raise SlackError("team_not_found")
    return {"team": shapes.team(call.directory)}


def bot_info(call: Call) -> Json:
    """Returns a bot. Raises `bot_not_found`."""
    app = call.directory.app_of_bot(call.args.optional("bot", call.app.bot_id))
    if app is None:
        raise SlackError("bot_not_found")
    return {"bot": shapes.bot(app, call.directory)}


def list_usergroups(call: Call) -> Json:
    """Returns the user groups of the seed, with their members on request."""
    groups = [shapes.user_group(group) for group in call.directory.user_groups.values()]
    hidden = {"users"} if not call.args.flag("include_users") else set()
    hidden |= {"user_count"} if not call.args.flag("include_count") else set()
    return {"usergroups": [{key: value for key, value in group.items() if key not in hidden} for group in groups]}


def list_usergroup_members(call: Call) -> Json:
    """Returns the members of a user group. Raises `no_such_subteam`."""
    wanted = call.args.text("usergroup")
    for group in call.directory.user_groups.values():
        if group.id == wanted:
            return {"users": list(group.members)}
    raise SlackError("no_such_subteam")


METHODS = (
    Method(name="team.info", handle=team_info, tier=Tier.TIER_3, scopes=("team:read",)),
    Method(name="bots.info", handle=bot_info, tier=Tier.TIER_3, scopes=("users:read",)),
    Method(name="usergroups.list", handle=list_usergroups, tier=Tier.TIER_2, scopes=("usergroups:read",)),
    Method(name="usergroups.users.list", handle=list_usergroup_members, tier=Tier.TIER_2, scopes=("usergroups:read",)),
)
