"""librdkafka's log in ours: once, although it repeats each line with every attempt to connect.

A connection that cannot be made is told in our own words, with the address and the next step.
"""

import logging
import math
import re
import time

ECHO_SECONDS = 30.0
ECHOES_MAX = 200
# A broker is named by its node id once the cluster has told it, and only then.
_NODE = re.compile(r":\d+/\d+\b")
_NO_CONNECTION = re.compile(r"([^\s/]+)/(\w+): Connect to \S+ failed: (.*?)(?: \(after |$)")
_NO_HOST = re.compile(r"/(\w+): Failed to resolve '([^']+)': (.*?)(?: \(after |$)")


class Echo:
    """The same words are not said again for a while, whichever way they come."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, float] = {}
        # Whether the cluster has answered once.
        self.knows_nodes = False
        # The last connection that could not be made; empty if there was none.
        self.unreachable = ""

    def log(self, level: int, words: str, *values: object) -> None:
        """librdkafka's binding calls it as it would a Logger."""
        text = words % values if values else words
        self.knows_nodes = self.knows_nodes or _NODE.search(text) is not None
        # What differs: who says it in which thread, how long it took, how many were not logged.
        essence = text.rpartition("]: ")[2].partition(" (after ")[0]
        told = unreachable(text)
        if told:
            self.unreachable = essence = text = told
            level = logging.WARNING
        elif self.unreachable and not self.knows_nodes and text.startswith("REQTMOUT"):
            level = logging.DEBUG  # requests that wait where nothing listens: that was told
        now = time.monotonic()
        if now - self._said.get(essence, -math.inf) < ECHO_SECONDS:
            return
        if len(self._said) >= ECHOES_MAX:
            self._said.clear()
        self._said[essence] = now
        self._log.log(level, "%s", text)


def unreachable(text: str) -> str:
    """Return the sentence for librdkafka's line about a connection that cannot be made; else ''."""
    found = _NO_CONNECTION.search(text)
    if found is not None:
        address, broker, why = found.groups()
        return f"nothing listens at {address} ({why}). {_next_step(broker)}"
    found = _NO_HOST.search(text)
    if found is not None:
        broker, address, why = found.groups()
        return f"the host of {address} is not known ({why}). {_next_step(broker)}"
    return ""


def _next_step(broker: str) -> str:
    if broker == "bootstrap":
        return "Is a node running there? `penstock start` starts one; bootstrap names its address."
    return f"Broker {broker} says that it is there: see its advertised.listeners."
