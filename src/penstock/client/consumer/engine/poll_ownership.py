"""Which thread polls librdkafka: the polling thread, or a reader with an empty buffer.

Records that one thread fetches and another reads move between processor caches, and both threads
wait for each other at every batch. So a reader with an empty buffer polls librdkafka on its own
thread while the polling thread rests. The polling thread fetches again when a reader waits, when no
reader came for READER_PATIENCE_S, or when no poll came for POLL_PATIENCE_S: the group must hear
from its member. Timed commits and requests stay with the polling thread.

A rebalance within a reader's poll must not block. So readers poll only when no record is in flight
and the application has no callbacks. The polling thread looks up where new partitions begin.
"""

import math
import threading
import time

READER_PATIENCE_S = 0.02
POLL_PATIENCE_S = 0.05


class PollOwnership:
    """The right to poll one consumer's librdkafka."""

    def __init__(self) -> None:
        # Knows its owner: a signal handler that raises may interrupt a reader right after `take`.
        self.lock = threading.RLock()
        # When a reader last made a step with no other record in flight.
        self.reader_came_at = -math.inf
        self.polled_at = -math.inf

    def take(self) -> bool:
        """Acquire the lock for a reader, without waiting. Return whether that worked."""
        self.reader_came_at = time.monotonic()
        return self.lock.acquire(blocking=False)

    def give_back(self) -> None:
        """Release the lock if this thread holds it."""
        try:  # faster than contextlib.suppress
            self.lock.release()
        except RuntimeError:
            pass

    @property
    def has_reader(self) -> bool:
        """Return whether a reader has come, and polled, within the patience of the polling
        thread."""
        now = time.monotonic()
        return now < self.reader_came_at + READER_PATIENCE_S and (
            now < self.polled_at + POLL_PATIENCE_S
        )
