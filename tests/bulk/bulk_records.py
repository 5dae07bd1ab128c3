"""Random records and batches, what the plain codec says of them, and both implementations."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from struct import pack_into
from typing import Any
from unittest.mock import patch

from crc32c import crc32c
from hypothesis import strategies as st

from penstock.bulk.decode import Decoder
from penstock.bulk.encode import BatchEncoder, WriterIdentity
from penstock.bulk.implementation import VARIABLE
from penstock.wire.batch import Record, build_batch

BOTH = ["numba", "plain"]
ALL_COLUMNS = [
    *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
]
NOW_MS = 1_700_000_000_000


@contextmanager
def using(implementation: str) -> Iterator[None]:
    with patch.dict(os.environ, {VARIABLE: implementation}):
        yield


def decoder(implementation: str, columns: Sequence[str] = ALL_COLUMNS, **more: Any) -> Decoder:
    with using(implementation):
        return Decoder(columns, topic="orders", partition=3, **more)


def encoder(
    implementation: str,
    partitions: int,
    *,
    identity: WriterIdentity | None = None,
    now_ms: Callable[[], int] = lambda: NOW_MS,
    **more: Any,
) -> BatchEncoder:
    with using(implementation):
        return BatchEncoder(partitions, identity=identity, now_ms=now_ms, **more)


SMALL = st.one_of(st.none(), st.binary(max_size=12))
LARGE = st.builds(
    lambda size, seed: Random(seed).randbytes(size), st.sampled_from([63, 64, 127, 8192, 20000]),
    st.integers(0, 99),
)  # fmt: skip
CONTENTS = st.one_of(SMALL, SMALL, SMALL, LARGE)
HEADERS: st.SearchStrategy[list[tuple[str, bytes | None]]] = st.one_of(
    st.just([]), st.just([]), st.lists(st.tuples(st.text(max_size=6), SMALL), max_size=4)
)
TIMES = st.one_of(st.integers(NOW_MS, NOW_MS + 200), st.integers(-1, 2**52))


@dataclass(frozen=True, slots=True)
class Built:
    """A batch and the records that went into it."""

    data: bytes
    records: list[Record]
    timestamp_type: int


@st.composite
def batches(draw: st.DrawFn, count_max: int = 4) -> list[Built]:
    """Batches of one partition, one behind the other, with gaps as compaction leaves them."""
    offset = draw(st.integers(0, 2**40))
    built = []
    for _ in range(draw(st.integers(0, count_max))):
        base_offset = offset
        records = []
        for _ in range(draw(st.integers(1, 6))):
            records.append(
                Record(offset, draw(TIMES), draw(CONTENTS), draw(CONTENTS), draw(HEADERS))
            )
            offset += draw(st.sampled_from([1, 1, 1, 2, 100]))
        append_time = draw(st.sampled_from([None, None, NOW_MS + 5]))
        data = build_batch(
            records,
            base_offset=base_offset,
            compression=draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4])),
            append_time_ms=append_time,
        )
        if append_time is not None:
            for record in records:
                record.timestamp = append_time
        built.append(Built(data, records, int(append_time is not None)))
    return built


def row_of(record: Record, timestamp_type: int) -> dict[str, Any]:
    """What a record is as a row; timestamps in microseconds."""
    headers = [{"key": name, "value": content} for name, content in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": "orders",
        "partition": 3,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
        "headers": headers or None,
    }


def rows_of_built(built: list[Built]) -> list[dict[str, Any]]:
    return [row_of(record, each.timestamp_type) for each in built for record in each.records]


def sealed(data: bytes) -> bytes:
    """One batch with the checksum that belongs to it."""
    out = bytearray(data)
    pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)
