"""The input of a run, and whether the output is it: every row once, in its order.

A row names its place in the source. Rows of one source partition are written by one task after the
other, so in each partition of the target they are in order.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from confluent_kafka import Producer

from chaos.copy_driver import PARTITIONS, SOURCE
from chaos.outcome import Found

KEYS = 7
FLUSH_SECONDS_MAX = 60.0
NAMED_MAX = 5


class Input:
    """As many rows in each partition, so that a batch has as many of each."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.rows = 0

    def write(self, rows: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        first, more = self.rows // PARTITIONS, -(-rows // PARTITIONS)
        for number in range(first, first + more):
            for partition in range(PARTITIONS):
                key = b"%d" % (number % KEYS)
                producer.produce(SOURCE, _value(partition, number), key, partition=partition)
        assert producer.flush(FLUSH_SECONDS_MAX) == 0, "the input is not written"
        self.rows += more * PARTITIONS

    def wrong_with(self, found: Sequence[Found]) -> "Differences":
        wanted = Counter(
            _value(partition, number)
            for number in range(self.rows // PARTITIONS)
            for partition in range(PARTITIONS)
        )
        got = Counter(each.value for each in found)
        return Differences(wanted - got, got - wanted, _out_of_order(found))


class Differences:
    """`more` are rows that are there too often, or were never written."""

    def __init__(
        self, missing: Counter[bytes], more: Counter[bytes], out_of_order: Sequence[bytes]
    ) -> None:
        self.missing = missing
        self.more = more
        self.out_of_order = out_of_order

    def sentences(self) -> list[str]:
        told = {
            "missing": list(self.missing),
            "too many": list(self.more),
            # What is there twice is out of order too, and says nothing more.
            "out of order": [] if self.more else list(self.out_of_order),
        }
        return [
            f"{len(rows)} rows are {what}: {b', '.join(rows[:NAMED_MAX]).decode()}"
            for what, rows in told.items()
            if rows
        ]


def _value(partition: int, number: int) -> bytes:
    return b"%d:%d" % (partition, number)


def _out_of_order(found: Sequence[Found]) -> list[bytes]:
    last: dict[tuple[int, bytes], int] = defaultdict(lambda: -1)
    wrong: list[bytes] = []
    for partition, value in found:
        source, _, number = value.partition(b":")
        if int(number) <= last[partition, source]:
            wrong.append(value)
        last[partition, source] = int(number)
    return wrong
