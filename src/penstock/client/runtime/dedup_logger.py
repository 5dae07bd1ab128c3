"""librdkafka's log lines without repetition, in Python's logging.

A failed connection is logged as a sentence with the address and the next step. Requests without an
answer are logged as a sentence with the address and their number.
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
# The lines about requests without an answer: one per request, and one about all of them.
_REQUEST_LOST = re.compile(r"^REQTMOUT .*: Timed out \w+Request ")
_REQUESTS_LOST = re.compile(
    r"\]: (?:\w+: )?([^\s/]+?)(?:/\w+)?: (?:Timed out (\d+) in-flight, (\d+) retry-queued, "
    r"(\d+) out-queue, (\d+) partially-sent|(\d+) request\(s\) timed out: disconnect)"
)
# A question for a producer id that the connection has cost, and that is asked again.
_ID_LOST = re.compile(r"^GETPID .*: Local: [^:]+: retrying$")
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
        elif self._is_repeated_elsewhere(text):
            level = logging.DEBUG
        elif lost := unanswered(text):
            essence, text = lost.partition(" (")[0], lost
        now = time.monotonic()
        if now - self._logged_at.get(essence, -math.inf) < REPEAT_SECONDS:
            return
        if len(self._logged_at) >= LINES_KEPT_MAX:
            self._logged_at.clear()
        self._logged_at[essence] = now
        self._log.log(level, "%s", text)

    def _is_repeated_elsewhere(self, text: str) -> bool:
        """Return whether another line or an exception tells the same in better words."""
        if text.startswith("TXNERR") or _REQUEST_LOST.match(text) or _ID_LOST.match(text):
            return True
        # The failed connection was logged before.
        return bool(self.unreachable) and not self.knows_nodes and text.startswith("REQTMOUT")


def unanswered(text: str) -> str:
    """Return the sentence for librdkafka's line about requests without an answer; else ''."""
    found = _REQUESTS_LOST.search(text)
    if found is None:
        return ""
    address, *counts = found.groups(default="0")
    count = sum(map(int, counts))
    return f"{address} does not answer ({count} request{'' if count == 1 else 's'})"


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
