"""An OpenTelemetry collector that keeps what it gets, on a free port in the loop of the test."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.doors import serving


@dataclass
class Collector:
    """Where to send traces, and what came."""

    base: str = ""
    spans: list[Span] = field(default_factory=list)

    async def receive(self, request: Request) -> Response:
        """``POST /v1/traces``, OTLP over HTTP with protobuf."""
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return Response(media_type="application/x-protobuf")

    def names_in(self, trace_id: str) -> set[str]:
        """The spans of one trace."""
        return {span.name for span in self.spans if span.trace_id.hex() == trace_id}


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    app = Starlette(routes=[Route("/v1/traces", collector.receive, methods=["POST"])])
    async with serving(app) as collector.base:
        yield collector
