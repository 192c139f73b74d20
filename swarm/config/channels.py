"""The settings of channels, and of who may use the swarm."""

from __future__ import annotations

from pydantic import Field, SecretStr, model_validator

from swarm.config.section import GivenSecret, OwnSecret
from swarm.domain.policy.channels import ChannelPolicy, EscalationPolicy, EscalationWebhook, WebhookFormat
from swarm.domain.policy.section import Domain, GroupId, HttpAddress, Section


class EscalationWebhookSettings(EscalationWebhook):
    """A service that is told when somebody asks for a human."""

    routing_key: GivenSecret | None = Field(None, description="PagerDuty's integration key")
    secret: OwnSecret | None = Field(None, description="signs the body of the format json")

    @model_validator(mode="after")
    def _has_what_its_format_needs(self) -> EscalationWebhookSettings:
        if (self.format is WebhookFormat.PAGERDUTY) != (self.routing_key is not None):
            raise ValueError("format pagerduty and routing_key belong together")
        if self.secret and self.format is not WebhookFormat.JSON:
            raise ValueError(f"secret is only for the format json, and format is {self.format}")
        return self


class EscalationSettings(EscalationPolicy):
    """What happens when somebody in a thread asks for a human."""

    webhook: EscalationWebhookSettings | None = None


class ChannelSettings(ChannelPolicy):
    """The settings for one channel, or the defaults for all channels."""

    escalation: EscalationSettings = EscalationSettings()

    def inheriting(self, defaults: ChannelSettings) -> ChannelSettings:
        """Returns these settings, with every missing key taken from ``defaults``, also those of `alerts`. Who names an
        agent does not inherit the id of another one.
        """
        own = self.model_fields_set
        changes: dict[str, object] = {"alerts": self.alerts.inheriting(defaults.alerts)} if "alerts" in own else {}
        if "agent" in own and "agent_id" not in own:
            changes["agent_id"] = None
        return super().inheriting(defaults).model_copy(update=changes)


class AgentAccessSettings(Section):
    """Who may use one agent. A person on any of the lists of people may; without such lists, everyone."""

    users: frozenset[str] | None = Field(None, description="user ids")
    groups: frozenset[GroupId] | None = Field(None, description="ids of user groups (S…)")
    domains: frozenset[Domain] | None = Field(None, description="domains of e-mail addresses")
    channels: frozenset[str] | None = Field(
        None, description="channel ids; null allows all channels and direct messages"
    )


class LangfuseSettings(Section):
    """Langfuse, which gets feedback as scores."""

    url: HttpAddress = Field("https://cloud.langfuse.com", description="Langfuse's address")
    public_key: str | None = Field(None, min_length=1)
    secret_key: SecretStr | None = None

    @model_validator(mode="after")
    def _has_both_keys(self) -> LangfuseSettings:
        if (self.public_key is None) != (self.secret_key is None):
            raise ValueError("public_key and secret_key belong together")
        return self


class FeedbackWebhookSettings(Section):
    """A service of your own, which gets every feedback."""

    url: HttpAddress | None = None
    secret: OwnSecret | None = Field(None, description="signs the body")

    @model_validator(mode="after")
    def _has_an_address(self) -> FeedbackWebhookSettings:
        if self.secret and not self.url:
            raise ValueError("secret is set, so url is expected as well")
        return self


class FeedbackSettings(Section):
    """Where people's feedback on answers is forwarded to."""

    langfuse: LangfuseSettings = LangfuseSettings()
    caipe_url: HttpAddress | None = Field(
        None, description="the address of CAIPE's web interface, which gets feedback at /api/feedback"
    )
    caipe_token: SecretStr | None = Field(None, description="a bearer token for it")
    webhook: FeedbackWebhookSettings = FeedbackWebhookSettings()
