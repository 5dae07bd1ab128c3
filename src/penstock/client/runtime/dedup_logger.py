"""librdkafka's log lines without repetition, in Python's logging.

A failed connection is logged as a sentence with the address and the next step.
"""

import logging
import math
import re
import time

REPEAT_SECONDS = 30.0
LINES_KEPT_MAX = 200
# librdkafka names a broker by node id only after an answer of the cluster.
_NODE = re.compile(r":\d+/\d+\b")
_NO_CONNECTION = re.compile(r"([^\s/]+)/(\w+): Connect to \S+ failed: (.*?)(?: \(after |$)")
_NO_ANSWER = re.compile(
    r"([^\s/]+)/(\w+): (?:ApiVersionRequest failed: Local: Timed out"
    r"|Connection setup timed out in state (\w+))"
)
_NO_HOST = re.compile(r"/(\w+): Failed to resolve '([^']+)': (.*?)(?: \(after |$)")


class DedupLogger:
    """A logger that drops repetitions for a while."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged_at: dict[str, float] = {}
        # Whether the cluster has ever answered.
        self.knows_nodes = False
        # The last failed connection; empty if there was none.
        self.unreachable = ""

    def log(self, level: int, words: str, *values: object) -> None:
        """Log a line; librdkafka's binding calls this as a Logger's method."""
        text = words % values if values else words
        self.knows_nodes = self.knows_nodes or _NODE.search(text) is not None
        # Without thread, duration and count, repetitions are equal.
        essence = text.rpartition("]: ")[2].partition(" (after ")[0]
        told = unreachable(text)
        if told:
            self.unreachable = essence = text = told
            level = logging.WARNING
        elif self.unreachable and not self.knows_nodes and text.startswith("REQTMOUT"):
            level = logging.DEBUG  # the failed connection was logged before
        now = time.monotonic()
        if now - self._logged_at.get(essence, -math.inf) < REPEAT_SECONDS:
            return
        if len(self._logged_at) >= LINES_KEPT_MAX:
            self._logged_at.clear()
        self._logged_at[essence] = now
        self._log.log(level, "%s", text)


def unreachable(text: str) -> str:
    """Return the sentence for librdkafka's line about a connection that cannot be made; else ''."""
    found = _NO_CONNECTION.search(text)
    if found is not None:
        address, broker, why = found.groups()
        return f"nothing listens at {address} ({why}). {_next_step(broker)}"
    found = _NO_ANSWER.search(text)
    if found is not None:
        address, broker, state = found.groups()
        if state == "CONNECT":
            return f"{address} does not take connections (timed out). {_next_step(broker)}"
        return f"{address} takes connections and does not answer. {_next_step(broker)}"
    found = _NO_HOST.search(text)
    if found is not None:
        broker, address, why = found.groups()
        return f"the host of {address} is not known ({why}). {_next_step(broker)}"
    return ""


def _next_step(broker: str) -> str:
    if broker == "bootstrap":
        return "Is a node running there? `penstock start` starts one; bootstrap names its address."
    return f"Broker {broker} says that it is there: see its advertised.listeners."
