"""What librdkafka logs, in our log: once, though it says the same with every attempt to connect."""

import logging
import math
import re
import time

ECHO_SECONDS = 30.0
ECHOES_MAX = 200
# A broker is named by its node id once the cluster has told it, and only then.
_NODE = re.compile(r":\d+/\d+\b")


class Echo:
    """The same words are not said again for a while, whichever way they come."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, float] = {}
        # Whether the cluster has answered once.
        self.knows_nodes = False

    def log(self, level: int, words: str, *values: object) -> None:
        """librdkafka's binding calls it as it would a Logger."""
        text = words % values if values else words
        self.knows_nodes = self.knows_nodes or _NODE.search(text) is not None
        # What differs: who says it in which thread, how long it took, how many were not logged.
        essence = text.rpartition("]: ")[2].partition(" (after ")[0]
        now = time.monotonic()
        if now - self._said.get(essence, -math.inf) < ECHO_SECONDS:
            return
        if len(self._said) >= ECHOES_MAX:
            self._said.clear()
        self._said[essence] = now
        self._log.log(level, "%s", text)
