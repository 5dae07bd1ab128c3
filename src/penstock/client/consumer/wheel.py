"""Who calls librdkafka: one thread at a time, the polling thread or one that reads on.

What one thread fetches and another reads has to be taken from one processor's caches to the
other's, and both wait for each other at every batch. So whoever finds nothing to read fetches by
himself, and the polling thread keeps still; it fetches again as soon as somebody waits, or when
nobody has come for a while, or nobody has fetched: what a reader has may last him for long, and the
group must hear of its member. What else it does, commits by the clock and orders, it still does.

A reader must not be held up by what librdkafka reports during a fetch. So it fetches only where
nobody has to be waited for: nothing is in hand, and the application has no callbacks. Where new
partitions begin is asked later, by the polling thread.
"""

import math
import threading
import time

# A reader who has not come for so long is busy: the polling thread fetches ahead.
READER_PATIENCE_S = 0.02
# And so long nobody may be inside librdkafka.
POLL_PATIENCE_S = 0.05


class Wheel:
    """Of one consumer."""

    def __init__(self) -> None:
        # One that knows its owner: a signal may come between its taking and what is done then.
        self.lock = threading.RLock()
        # When a reader last made a step with nothing else in hand.
        self.reader_came_at = -math.inf
        # When somebody last fetched.
        self.polled_at = -math.inf

    def take(self) -> bool:
        """For a reader, who never waits for it. If he does not get it, he will the next time."""
        self.reader_came_at = time.monotonic()
        return self.lock.acquire(blocking=False)

    def give_back(self) -> None:
        """If this thread has it."""
        try:  # after every fetch: a context manager takes its time
            self.lock.release()
        except RuntimeError:
            pass

    @property
    def has_reader(self) -> bool:
        """Whether one comes by himself, and fetches."""
        now = time.monotonic()
        return now < self.reader_came_at + READER_PATIENCE_S and (
            now < self.polled_at + POLL_PATIENCE_S
        )
