"""How soon a test has a cluster: from nothing to the first answer to a client.

Each measurement is a fresh process of Python (`python -m bench.testkit KIND`), and counts from the
moment before anything is imported: `embedded` and `process` are the two ways of
`penstock.testing.Cluster`, `mock` is the mock cluster inside librdkafka, which serves the client
that made it. Nothing else may be imported at the head of this file.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bench.row import Context, Sample

READY_MS_MAX = 300.0  # what the test kit promises for one broker
THREE_AGAIN_S_MAX = 1.0  # and for the second cluster of three brokers in a process
MEASURE_SECONDS_MAX = 120
STARTS = 5
OURS = "penstock"


class Started(NamedTuple):
    """Milliseconds to the first answer: the first cluster of a process, and one after it."""

    first_ms: float
    again_ms: float


def cluster(processes: bool, brokers: int = 1) -> Callable[[], None]:
    """One life of a cluster, up to the first answer; and its end."""

    def start() -> None:
        from penstock.client.transport.connection import Connection
        from penstock.testing import Cluster

        began = Cluster(brokers=brokers, processes=processes).start()
        Connection(*began.address).close()
        KEPT.append(began.close)

    return start


def mock() -> None:
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    assert producer.list_topics(timeout=10).brokers
    KEPT.append(lambda: None)


# What ends those that were started: not part of what is measured.
KEPT: list[Callable[[], None]] = []
KINDS: dict[str, Callable[[], None]] = {
    "embedded": cluster(processes=False),
    "process": cluster(processes=True),
    "three": cluster(processes=False, brokers=3),
    "mock": mock,
}


def measured(kind: str) -> Started:
    """Medians over some processes, each of which starts two."""
    found = []
    for _ in range(STARTS):
        ran = subprocess.run(
            [sys.executable, "-m", "bench.testkit", kind],
            capture_output=True,
            text=True,
            timeout=MEASURE_SECONDS_MAX,
            check=False,
        )
        if ran.returncode:
            from bench.programs import LoadFailed

            raise LoadFailed(f"no cluster of kind {kind}: {ran.stderr.strip()}")
        found.append(Started(**json.loads(ran.stdout)))
    middle = STARTS // 2
    return Started(
        sorted(each.first_ms for each in found)[middle],
        sorted(each.again_ms for each in found)[middle],
    )


def ready(kind: str, beside: str | None = None) -> "Callable[[Context], Sample]":
    """A row: `kind` on Penstock's side; on the other `beside`, or else Apache Kafka itself, which
    has formatted its directory before the clock runs."""

    def measure(context: "Context") -> "Sample":
        from bench.programs import LoadFailed
        from bench.row import Sample

        ours = context.server.kind == OURS
        if not ours and beside is None:
            return Sample(context.server.started_s * 1000)
        started = measured(kind if ours else beside or "")
        promised = ours and kind == "embedded" and not context.quick
        if promised and started.first_ms > READY_MS_MAX:
            raise LoadFailed(f"ready in {started.first_ms:.0f} ms; {READY_MS_MAX:.0f} are promised")
        return Sample(started.first_ms, None, {"again_ms": started.again_ms})

    return measure


def three_ready(context: "Context") -> "Sample":
    """Seconds until a cluster of three nodes for tests answers; both limits hold, or the row
    fails."""
    from bench.programs import LoadFailed
    from bench.row import Sample

    started = measured("three")
    first_s, again_s = started.first_ms / 1000, started.again_ms / 1000
    if again_s > THREE_AGAIN_S_MAX and not context.quick:
        raise LoadFailed(f"the second one: {again_s:.2f} s; {THREE_AGAIN_S_MAX} are promised")
    return Sample(first_s, None, {"again_s": again_s})


def main() -> None:
    start = KINDS[sys.argv[1]]
    times = []
    for _ in range(2):
        began = time.monotonic()
        start()
        times.append((time.monotonic() - began) * 1000)
        KEPT.pop()()
    print(json.dumps(Started(*times)._asdict()))


if __name__ == "__main__":
    main()
