"""How long a lease lasts is the operator's to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.clock import SECOND
from swarm.config import load
from swarm.domain.conduct import Conduct
from swarm.domain.errors import ConfigurationError
from tests.support.world import BOT, World

LEASE_SECONDS = 5
