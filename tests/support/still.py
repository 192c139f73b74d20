"""The twin's clock for tests: what Slack does over time comes when a test moves the clock, and never by itself.

On a clock that goes, a machine that stands still for three seconds has Slack send an event again in the middle of a
test, and one that takes a second for a few posts is given a further one.
"""

from __future__ import annotations

import time

from swarm.twin.clock import Clock


def still_clock() -> Clock:
    """A clock that stands at the present until it is advanced."""
    present = int(time.time())
    return Clock(source=lambda: float(present))
