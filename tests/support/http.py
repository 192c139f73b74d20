"""The HTTP client of the tests, which never speak TLS."""

from __future__ import annotations

from typing import Any

import httpx2


def client(**options: Any) -> httpx2.AsyncClient:
    """A client for plain HTTP: without certificates, which take a tenth of a second to load."""
    return httpx2.AsyncClient(verify=False, **options)
