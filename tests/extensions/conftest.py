"""A client of coordinators and twins."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.support.http import client as http_client


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client(timeout=60) as http:
        yield http
