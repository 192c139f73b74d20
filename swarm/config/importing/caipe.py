"""Translates the configuration of CAIPE's Slack bot (``SLACK_INTEGRATION_BOT_CONFIG``) into our settings.

One agent answers a channel here. Where CAIPE has several, it is the one that answers people's mentions (the first in
the file, as there); without one, the first that listens at all. The others are registered as well, so that people reach
them with ``swarm#name``.

Bots are permitted by id only. CAIPE also compares names, but a name is chosen by whoever installs an app, so a name in
a list is reported and permits nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from swarm.config.importing import caipe_models as models
from swarm.config.importing import caipe_variables as variable
from swarm.config.importing.caipe_agents import ServiceAgents, add_agents
from swarm.config.importing.documents import parsed, text_of
from swarm.config.importing.translation import Translation
from swarm.domain.errors import ConfigurationError
from swarm.domain.policy.access import ANY_BOT
from swarm.domain.policy.channels import Listen

_CHANNEL: Final = re.compile(r"[CDG][A-Z0-9]{2,}")
_MEMBER: Final = re.compile(r"[UWB][A-Z0-9]{2,}")
_GROUP: Final = re.compile(r"S[A-Z0-9]{2,}")

_INLINE: Final = re.compile(r"\n|:(\s|$)|^\s*\{")
"""Matches YAML in a variable, in contrast to a path."""

_BOT_NAME: Final = "a bot's name can be chosen by anybody who installs an app, so add its id (B… or U…) to allowed_bots"
_MENTIONS: Final = "people's mentions are answered as well"


def configured(value: str, folder: Path) -> Mapping[str, Any]:
    """Returns the content of the variable: of the file that it names, or of itself. Raises ConfigurationError."""
    if path := variable.config_file(value, folder):
        return mapping(parsed(text_of(path), str(path)), str(path))
    if not _INLINE.search(value):
        raise ConfigurationError(f"{variable.BOT_CONFIG} is {value}: there is no such file")
    return mapping(parsed(value, variable.BOT_CONFIG), variable.BOT_CONFIG)


def of_chart(document: object) -> tuple[object, dict[str, str]]:
    """Returns the channels and the variables of a Helm chart's values, or any other document without variables."""
    values = document.get("slack-bot", document) if isinstance(document, dict) else document
    if not isinstance(values, dict) or "botConfig" not in values:
        return document, {}
    given = values.get("config")
    variables = given if isinstance(given, dict) else {}
    return values["botConfig"], {str(name): str(value) for name, value in variables.items() if value not in (None, "")}


def mapping(document: object, name: str) -> Mapping[str, Any]:
    """Returns a document that is a mapping, by texts. Raises ConfigurationError for any other."""
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{name}: a mapping is expected, not {type(document).__name__}")
    return {str(key): value for key, value in document.items()}


def translate(
    document: Mapping[str, Any],
    name: str,
    variables: Mapping[str, str],
    agents: Mapping[str, Any] | None = None,
    *,
    reference: Callable[[str], str] | None = None,
) -> Translation:
    """Returns the settings for a configuration of CAIPE's bot.

    ``name`` is the configuration's name in errors, and ``agents`` has the settings under ``agents`` that exist already.
    ``reference`` makes a reference to a variable that holds a secret; None: the secret is used. Raises
    ConfigurationError.
    """
    done = Translation()
    known = ServiceAgents(agents or {})
    channels = list(models.read(document, name))
    for channel, settings in channels:
        if not _CHANNEL.fullmatch(channel):
            raise ConfigurationError(
                f"{name}: '{channel}' is not a channel's id; an id such as C0123456789 is expected"
            )
        done.values.setdefault("channels", {})[channel] = {}
        translator = _Newer if isinstance(settings, models.Channel) else _Older
        translator(channel, done, known, variables).translate(settings)  # type: ignore[arg-type]
    is_newer = any(isinstance(settings, models.Channel) for _, settings in channels)
    add_agents(done, known, variables, is_newer=is_newer, reference=reference)
    if variable.is_on(variables.get(variable.SILENCE)):
        _silence(done, channels)
    done.notes += variable.notes(variables)
    return done


class _Channel:
    """The translation of one channel."""

    def __init__(self, channel: str, done: Translation, agents: ServiceAgents, variables: Mapping[str, str]) -> None:
        self.channel = channel
        self.done = done
        self.agents = agents
        self.variables = variables

    def put(self, key: str, value: object, source: str, remark: str = "") -> None:
        self.done.put(("channels", self.channel, *key.split(".")), value, f"{self.channel}.{source}", remark)

    def leave(self, source: str, reason: str) -> None:
        self.done.leave(f"{self.channel}.{source}", reason)

    def common(self, settings: models.Channel | models.OlderChannel) -> None:
        for key in sorted(models.unknown(settings, self.channel)):
            self.done.leave(key, "CAIPE's bot knows no such key")
        if settings.name:
            self.done.names[self.channel] = settings.name
            self.leave("name", "channels are called as in Slack")

    def agent(self, agent_id: str, source: str) -> None:
        name = self.agents.name_of(agent_id)
        remark = f"the agent {agent_id} is called {name} here" if name != agent_id else ""
        self.put("agent", name, source, remark)

    def bots(self, bots: Sequence[str] | None, source: str) -> None:
        """Permits bots: those with ids of a list, or all if there is no list."""
        if bots is None:
            self.put("allowed_bots", [ANY_BOT], source)
            return
        ids = [bot for bot in bots if _MEMBER.fullmatch(bot)]
        self.put("allowed_bots", ids, source)
        for bot in bots:
            if bot not in ids:
                self.leave(f"{source}.{bot}", _BOT_NAME)

    def escalation(self, wanted: models.CaipeEscalation, source: str, agent_id: str | None) -> None:
        """``agent_id`` is the channel's agent, which is asked who is on call if no other is named."""
        users = [user for user in wanted.users if not _GROUP.fullmatch(user)]
        groups = [user for user in wanted.users if _GROUP.fullmatch(user)]
        if users:
            self.put("escalation.users", users, f"{source}.users")
        if groups:
            self.put("escalation.groups", groups, f"{source}.users")
        if wanted.emoji.enabled:
            self.put("escalation.emoji", wanted.emoji.name.strip(":"), f"{source}.emoji")
        self._on_call(wanted.victorops, f"{source}.victorops", agent_id)
        if wanted.delete_admins:
            self._delete_admins(f"{source}.delete_admins")

    def _on_call(self, wanted: models.VictorOps, source: str, agent_id: str | None) -> None:
        if wanted.escalation_policy:
            self.leave(f"{source}.escalation_policy", "the agent is asked for the team's on-call person")
        if not (wanted.enabled and wanted.team):
            return
        asked = wanted.agent_id or self.variables.get(variable.VICTOROPS_AGENT) or agent_id
        if asked is None:
            self.leave(source, f"no agent is named that knows who is on call ({variable.VICTOROPS_AGENT})")
            return
        self.put("escalation.agent", self.agents.name_of(asked), source)
        self.put("escalation.team", wanted.team, f"{source}.team")

    def _delete_admins(self, source: str) -> None:
        self.leave(source, "nobody deletes the app's messages with a button; Slack's workspace admins can delete them")


class _Older(_Channel):
    """A channel until 0.3."""

    def translate(self, settings: models.OlderChannel) -> None:
        self.common(settings)
        alerts = settings.ai_alerts.enabled
        if not settings.ai_enabled:
            self.put("enabled", alerts, "ai_enabled", _MENTIONS if alerts else "")
        if settings.agent_id:
            self.agent(settings.agent_id, "agent_id")
        if alerts:
            self._alerts(settings)
        elif settings.qanda.enabled and settings.ai_enabled:
            self._qanda(settings.qanda)
        elif settings.ai_enabled:
            self.put("listen", Listen.MENTION.value, "qanda.enabled")
        if settings.qanda.custom_prompt:
            self.leave("qanda.custom_prompt", "the wording belongs into the agent's system prompt")
        self._other(settings)

    def _qanda(self, qanda: models.Qanda) -> None:
        self.put("listen", Listen.ALL.value, "qanda.enabled")
        if qanda.overthink:
            self.put("overthink", True, "qanda.overthink")
        if qanda.include_bots.enabled:
            self.bots(qanda.include_bots.bot_list, "qanda.include_bots.bot_list")

    def _alerts(self, settings: models.OlderChannel) -> None:
        self.put("listen", Listen.ALERTS.value, "ai_alerts.enabled")
        self.put("allowed_bots", [ANY_BOT], "ai_alerts.enabled")
        if settings.qanda.enabled:
            self.leave("qanda.enabled", "a channel with alerts answers people's mentions only")
        template = settings.ai_alerts.custom_prompt
        if template:
            self.put("alerts.template", template, "ai_alerts.custom_prompt")
        elif variable.ALERTS_PROMPT in self.variables:
            self.put("alerts.template", self.variables[variable.ALERTS_PROMPT], "ai_alerts")
        jira = settings.other.jira
        if jira:
            self.put("alerts.jira_project", jira.project_key, "other.jira.project_key")
            self.put("alerts.jira_config", jira.model_dump(include=set(models.Jira.model_fields)), "other.jira")

    def _other(self, settings: models.OlderChannel) -> None:
        other = settings.other
        if other.escalation:
            self.escalation(other.escalation, "other.escalation", settings.agent_id)
        if other.delete_admins:
            self._delete_admins("other.delete_admins")
        if other.jira and not settings.ai_alerts.enabled:
            self.leave("other.jira", "only alerts have a ticket's fields")
        if settings.default:
            self.leave("default", "threads reach agents in full, up to prompts.history_characters")


class _Newer(_Channel):
    """A channel since 0.4."""

    def translate(self, settings: models.Channel) -> None:
        self.common(settings)
        if settings.team:
            self.leave("team", "who may use an agent is in channels.*.allowed_users and agents.access")
        if not settings.agents:
            return
        active = [binding for binding in settings.agents if _listens(binding.users) or _listens(binding.bots)]
        if not active:
            self.put("enabled", False, "agents", "CAIPE's default agent answers mentions there")
            return
        chosen = next((binding for binding in active if _hears_mentions(binding.users)), active[0])
        for index, binding in enumerate(settings.agents):
            if binding is chosen:
                self._chosen(binding, f"agents.{index}")
            else:
                self._other_agent(binding, f"agents.{index}", is_active=binding in active)

    def _chosen(self, binding: models.Binding, source: str) -> None:
        self.agent(binding.agent_id, f"{source}.agent_id")
        people, bots = _messages(binding.users), _messages(binding.bots)
        self._listen(binding, people=people, bots=bots, source=source)
        self._overthink(binding, people=people, bots=bots, source=source)
        if binding.users and binding.users.user_list is not None:
            self.put("allowed_users", binding.users.user_list, f"{source}.users.user_list")
        if binding.bots and _listens(binding.bots):
            self.bots(binding.bots.bot_list, f"{source}.bots.bot_list")
        if binding.escalation:
            self.escalation(binding.escalation, f"{source}.escalation", binding.agent_id)
        if binding.execution_identity and binding.execution_identity.mode != "obo_user":
            self.leave(f"{source}.execution_identity", "runs use the service's credentials (agents.remote.*.oauth)")

    def _listen(self, binding: models.Binding, *, people: bool, bots: bool, source: str) -> None:
        listen = Listen.ALL if people else Listen.BOTS if bots else Listen.MENTION
        of = "users" if people or not bots else "bots"
        remark = "" if _hears_mentions(binding.users) else _MENTIONS
        if people and not bots and _listens(binding.bots):
            remark = "root messages of bots are answered as well, not only their mentions"
        self.put("listen", listen.value, f"{source}.{of}.listen", remark)

    def _overthink(self, binding: models.Binding, *, people: bool, bots: bool, source: str) -> None:
        wanted = {
            kind: authors.overthink
            for kind, authors, heard in (("users", binding.users, people), ("bots", binding.bots, bots))
            if authors and heard
        }
        for kind, overthink in wanted.items():
            if overthink.enabled:
                is_same = all(other.enabled for other in wanted.values())
                remark = "" if is_same else "it holds for people and bots alike"
                self.put("overthink", True, f"{source}.{kind}.overthink.enabled", remark)
            if overthink.skip_markers is not None and set(overthink.skip_markers) != models.DEFAULT_MARKERS:
                self.leave(f"{source}.{kind}.overthink.skip_markers", "the markers are DEFER and LOW_CONFIDENCE")
            if overthink.followup_prompt:
                key = f"{source}.{kind}.overthink.followup_prompt"
                self.leave(key, "the wording belongs into the agent's system prompt, by client_context.humble_followup")

    def _other_agent(self, binding: models.Binding, source: str, *, is_active: bool) -> None:
        if not is_active:
            self.leave(source, f"{binding.agent_id} listens to nobody")
            return
        name = self.agents.name_of(binding.agent_id)
        bots = ", and posts of bots do not reach it" if _listens(binding.bots) else ""
        self.leave(source, f"one agent answers a channel; people reach this one with swarm#{name}{bots}")


def _listens(authors: models.Authors | None) -> bool:
    return authors is not None and authors.enabled


def _hears_mentions(users: models.Authors | None) -> bool:
    return users is not None and users.enabled and (users.listen or models.Hears.MENTION).hears_mentions


def _messages(authors: models.Authors | None) -> bool:
    """Whether an agent hears root messages without a mention of these authors."""
    return authors is not None and authors.enabled and (authors.listen or models.Hears.MENTION).hears_messages


def _silence(done: Translation, channels: Sequence[tuple[str, object]]) -> None:
    done.put(("channel_defaults", "enabled"), False, variable.SILENCE)
    for channel, _ in channels:
        done.values["channels"][channel]["enabled"] = False
