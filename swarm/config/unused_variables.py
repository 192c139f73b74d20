"""Variables that look like settings but are never read: without this check, a slip in a name passes silently."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from swarm.config.settings import Settings
from swarm.config.variables import READ_ELSEWHERE, VARIABLES
from swarm.domain.errors import ConfigurationError

OURS: Final = ("SWARM_", "SLACK_INTEGRATION_")
"""The prefixes of settings; other names may be for other programs."""

_OF_TESTS: Final = "SWARM_TEST_"
_KNOWN: Final = READ_ELSEWHERE | VARIABLES.keys()

_NOT_YET: Final = {
    "SLACK_INTEGRATION_BOT_CONFIG": (
        "it is not supported yet; channels go to swarm.yaml (channels, channel_defaults), see docs/configuration.md"
    )
}

_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OF_KUBERNETES: Final = re.compile(
    r"SWARM(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
"""Variables that every container gets for a Service called swarm, or swarm-something."""
_KUBERNETES_PORT: Final = re.compile(r"(tcp|udp|sctp)://")


def check(sources: Mapping[str, Mapping[str, str]], settings: Settings, *texts: str) -> None:
    """Raises ConfigurationError with every unread variable of ours, and its source.

    ``sources`` has the set variables, by source. ``texts`` are the files with placeholders ``${NAME}``.
    """
    read = {*_passed_on(settings), *(name for text in texts for name in _PLACEHOLDER.findall(text))}
    found = [
        f"{name} ({where}) is read by nothing: {_advice(name)}"
        for where, variables in sources.items()
        for name, value in variables.items()
        if name.startswith(OURS) and name not in read and not _is_known(name, value)
    ]
    if found:
        raise ConfigurationError(
            "; ".join(found), hint="Correct the name, or unset it; docs/configuration.md says what there is."
        )


def text_of(path: Path) -> str:
    """A file's text; empty for an unreadable file, which its own reader reports."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _passed_on(settings: Settings) -> Iterator[str]:
    """Variables that tools pass to their programs."""
    for chosen in (settings.tools.git, settings.tools.shell, settings.tools.delegates):
        yield from chosen.environment


def _is_known(name: str, value: str) -> bool:
    if name in _KNOWN or name.startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(name):
        return True
    return name.endswith("_PORT") and _KUBERNETES_PORT.match(value) is not None


def _advice(name: str) -> str:
    if name in _NOT_YET:
        return _NOT_YET[name]
    close = [*_without_prefix(name), *difflib.get_close_matches(name, sorted(_KNOWN), n=1)]
    return f"is {close[0]} meant?" if close else "there is no such setting"


def _without_prefix(name: str) -> Iterator[str]:
    """Likely names: PORT for SWARM_PORT, SLACK_BOT_TOKEN for SLACK_INTEGRATION_BOT_TOKEN."""
    for prefix, instead in (("SWARM_", ""), ("SLACK_INTEGRATION_", "SLACK_")):
        if name.startswith(prefix) and (other := instead + name.removeprefix(prefix)) in _KNOWN:
            yield other
