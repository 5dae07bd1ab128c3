"""Questions that change nothing are asked again while the cluster is away.

A node that is started again is back within seconds. What changes something has its own way to
insist (client/transacting, client/writing); these are the questions around it.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.errors import BrokerNotAvailable

R = TypeVar("R")

PAUSE_MS_MIN = 20
PAUSE_MS_MAX = 500


def patiently(ask: Callable[[], R], patience_ms: int) -> R:
    """Its answer; what it raised last, if none comes in that time."""
    deadline = time.monotonic() + patience_ms / 1000
    pause_ms = PAUSE_MS_MIN
    while True:
        try:
            return ask()
        except NotAuthenticated:
            raise
        except (CannotReach, BrokerNotAvailable):
            if time.monotonic() + pause_ms / 1000 > deadline:
                raise
        time.sleep(pause_ms / 1000)
        pause_ms = min(PAUSE_MS_MAX, pause_ms * 2)
