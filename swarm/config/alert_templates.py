"""Reads and checks the templates of alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from swarm.config.channels import ChannelSettings
from swarm.config.settings import Settings
from swarm.domain.policy.channels import AlertPolicy, Listen
from swarm.domain.prompts.alerts import check_template

MAX_TEMPLATE_BYTES: Final = 100_000


def with_templates(settings: Settings, folder: Path) -> tuple[Settings, dict[str, str]]:
    """Returns the settings with the contents of template files, and each bad key with its problem.

    A relative path starts at ``folder``.
    """
    problems: dict[str, str] = {}
    everywhere = _filled_in(settings.channel_defaults, "channel_defaults", folder, problems)
    channels = {
        channel: _filled_in(chosen, f"channels.{channel}", folder, problems)
        for channel, chosen in settings.channels.items()
    }
    settings = settings.model_copy(update={"channel_defaults": everywhere, "channels": channels})
    return settings, problems | _problems(settings)


def _filled_in(chosen: ChannelSettings, key: str, folder: Path, problems: dict[str, str]) -> ChannelSettings:
    path = chosen.alerts.template_file
    if path is None:
        return chosen
    try:
        template = _text(folder / path.expanduser())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        problems[f"{key}.alerts.template_file"] = f"{path} cannot be read: {why}"
        return chosen
    return chosen.model_copy(update={"alerts": chosen.alerts.model_copy(update={"template": template})})


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_TEMPLATE_BYTES + 1)
    if len(content) > MAX_TEMPLATE_BYTES:
        raise ValueError(f"a file of at most {MAX_TEMPLATE_BYTES:,} bytes is expected")
    text = content.decode()
    if not text.strip():
        raise ValueError("the file is empty")
    return text


def _problems(settings: Settings) -> dict[str, str]:
    """Returns the problems of all templates, each with the variables that apply to it."""
    whole = {f"channels.{channel}": chosen.alerts for channel, chosen in settings.channels_in_full.items()}
    defaults = settings.channel_defaults
    variables = set(defaults.alerts.variables)
    if defaults.listen is not Listen.ALERTS:  # then the template is only for channels, with their own variables
        variables |= {name for alerts in whole.values() for name in alerts.variables}
    checks = [("channel_defaults", defaults.alerts, variables)]
    checks += [(key, alerts, set(alerts.variables)) for key, alerts in whole.items()]
    return dict(filter(None, (_problem(*check) for check in checks)))


def _problem(key: str, alerts: AlertPolicy, variables: set[str]) -> tuple[str, str] | None:
    """Returns the key of a bad template with its problem; None for a good template."""
    try:
        check_template(alerts.template or "", variables)
    except ValueError as error:
        file = f"{alerts.template_file}: " if alerts.template_file else ""
        return f"{key}.alerts.template", f"{file}{error}"
    return None
