"""The configuration file of CAIPE's Slack bot, in its two generations.

Until 0.3 a channel had one agent and modes (``qanda``, ``ai_alerts``, ``other``); since 0.4 it has a list of agents,
each with the messages that it listens to. Channels of both generations may stand in one file. Unknown keys are kept in
``model_extra``, so that they can be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swarm.config.section import expectation
from swarm.domain.errors import ConfigurationError

DEFAULT_MARKERS: Final = frozenset({"DEFER", "LOW_CONFIDENCE"})


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", hide_input_in_errors=True, coerce_numbers_to_str=True)


class Hears(StrEnum):
    """The messages that an agent of the newer generation listens to."""

    MENTION = "mention"
    MESSAGE = "message"  # root messages without a mention
    ALL = "all"

    @property
    def hears_mentions(self) -> bool:
        return self is not Hears.MESSAGE

    @property
    def hears_messages(self) -> bool:
        return self is not Hears.MENTION


class VictorOps(_Part):
    enabled: bool = False
    team: str = ""
    agent_id: str | None = None  # the older generation's
    escalation_policy: str = ""  # for one version


class Emoji(_Part):
    enabled: bool = False
    name: str = "eyes"


class CaipeEscalation(_Part):
    victorops: VictorOps = VictorOps()
    users: list[str] = []
    emoji: Emoji = Emoji()
    delete_admins: list[str] = []


class Overthink(_Part):
    enabled: bool = False
    skip_markers: list[str] | None = None
    followup_prompt: str | None = None


class Authors(_Part):
    """The people, or the bots, that an agent listens to."""

    enabled: bool = True
    listen: Hears | None = None
    overthink: Overthink = Overthink()
    user_list: list[str] | None = None
    bot_list: list[str] | None = None


class Identity(_Part):
    mode: str = "obo_user"
    service_account_sub: str | None = None
    service_account_name: str | None = None


class Binding(_Part):
    """One agent of a channel."""

    agent_id: str = Field(min_length=1)
    users: Authors | None = None
    bots: Authors | None = None
    escalation: CaipeEscalation | None = None
    execution_identity: Identity | None = None


class Channel(_Part):
    """A channel of the newer generation."""

    name: str = ""
    agents: list[Binding] = []
    team: str | None = None


class Bots(_Part):
    enabled: bool = False
    bot_list: list[str] | None = None


class Qanda(_Part):
    enabled: bool = False
    overthink: bool = False
    include_bots: Bots = Bots()
    custom_prompt: str | None = None


class Alerts(_Part):
    enabled: bool = False
    custom_prompt: str | None = None


class Jira(_Part):
    project_key: str
    issue_type: str = "Bug"
    additional_fields: dict[str, Any] = {}


class Other(_Part):
    jira: Jira | None = None
    escalation: CaipeEscalation | None = None
    delete_admins: list[str] = []


class OlderChannel(_Part):
    """A channel of the older generation."""

    name: str = ""
    ai_enabled: bool = False
    agent_id: str | None = None
    qanda: Qanda = Qanda()
    ai_alerts: Alerts = Alerts()
    other: Other = Other()
    default: dict[str, Any] = {}


def read(document: Mapping[str, Any], name: str) -> Iterator[tuple[str, Channel | OlderChannel]]:
    """Yields each channel with its id. Raises ConfigurationError, which names the key and what is expected."""
    for key, value in document.items():
        if not isinstance(value, dict):
            raise ConfigurationError(f"{name}: {key}: the settings of a channel are expected, by its id")
        kind = Channel if "agents" in value else OlderChannel
        try:
            yield key, kind.model_validate({part: given for part, given in value.items() if given is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(map(str, (key, *first["loc"])))
            raise ConfigurationError(f"{name}: {at}: {expectation(first)}") from None


def unknown(part: BaseModel, at: str) -> Iterator[str]:
    """Yields the dotted keys that no version of CAIPE's bot knows."""
    yield from (f"{at}.{key}" for key in part.model_extra or ())
    for name in part.model_fields_set:
        match getattr(part, name, None):
            case BaseModel() as below:
                yield from unknown(below, f"{at}.{name}")
            case [*several]:
                for index, below in enumerate(several):
                    if isinstance(below, BaseModel):
                        yield from unknown(below, f"{at}.{name}.{index}")
