"""Retries reads while the cluster is unreachable.

A restarted node is back within seconds. Writes have their own retries (client/raw/transactions.py,
client/raw/batch_writer.py); these are the reads around them.
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
    """Return the answer. After `patience_ms` without one, raise the last error."""
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
