"""Optional traces: the only place that imports the packages of the extra ``otel``, and only if traces are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from swarm.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from swarm.telemetry.traces import Traces

TRACES_PATH: Final = "/v1/traces"
TIMEOUT_SECONDS: Final = 3.0
"""For one export; shutdown waits for the last one."""

EVERY_SECONDS: Final = 1.0
"""The interval between batches."""


def open_traces(endpoint: str, *, version: str) -> Traces:
    """Traces sent to an OTLP collector over HTTP, in batches, from a thread of their own.

    ``endpoint`` is the collector's address; without a path the usual ``/v1/traces`` is added. Raises ConfigurationError
    if the needed packages are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from swarm.telemetry.traces import Traces
    except ImportError as error:
        raise ConfigurationError(
            f"traces.endpoint (SWARM_TRACES_ENDPOINT) is set, but {error.name} is not installed.",
            hint="Install swarm with the extra 'otel' (pip install 'swarm[otel]'), or unset the variable.",
        ) from error
    exporter = OTLPSpanExporter(endpoint=_whole(endpoint), timeout=TIMEOUT_SECONDS)
    batches = BatchSpanProcessor(exporter, schedule_delay_millis=EVERY_SECONDS * 1000)
    return Traces(batches, version=version)


def _whole(endpoint: str) -> str:
    return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
