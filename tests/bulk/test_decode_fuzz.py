"""Whatever the bytes say, the decoder gives the plain codec's rows or refuses, and reads no byte
that is not its own."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from bulk_records import BOTH, decoder, row_of
from damaged_batches import damaged_batch

from depth import examples
from penstock.bulk.columns import TIME_MS_MAX
from penstock.wire.batch import APPEND_TIME, HEADER, CorruptBatch, read_records
from penstock.wire.primitives import Malformed

BATCHES = examples(400, few=200)
GUARDED = examples(3000, few=1000)


def plain_rows(data: bytes) -> list[dict[str, Any]] | None:
    """What the plain codec reads, None if it refuses; times and offsets that no column can hold,
    or that lie outside of the batch, count as refused."""
    header = HEADER.unpack_from(data)
    try:
        records = list(read_records(data))
    except Malformed:
        return None
    for record in records:
        if not header[0] <= record.offset <= header[0] + header[6]:
            return None
        if abs(record.timestamp) > TIME_MS_MAX:
            return None
    return [row_of(record, int(bool(header[5] & APPEND_TIME))) for record in records]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("implementation", BOTH)
def test_a_damaged_batch_is_refused_exactly_when_the_plain_codec_refuses(
    implementation: str, seed: int
) -> None:
    random = Random(seed)
    one = decoder(implementation)
    refused = 0
    for _ in range(BATCHES):
        data = damaged_batch(random)
        expected = plain_rows(data)
        if expected is None:
            refused += 1
            with pytest.raises(CorruptBatch, match="orders-3"):
                one.decode(data, -(2**62), 2**62)
            continue
        rows = one.decode(data, -(2**62), 2**62).rows
        rows.validate(full=True)
        place = rows.schema.names.index("timestamp")
        rows = rows.set_column(place, "timestamp", rows.column(place).cast(pa.int64()))
        assert rows.to_pylist() == expected
    assert BATCHES // 10 < refused < BATCHES


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a page without access")
@pytest.mark.parametrize("implementation", BOTH)
def test_no_byte_behind_the_batch_is_read(implementation: str) -> None:
    program = Path(__file__).parent / "guarded_decode.py"
    done = subprocess.run(
        [sys.executable, str(program), implementation, "1", str(GUARDED)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"of {GUARDED} refused" in done.stdout


@pytest.mark.parametrize("implementation", BOTH)
def test_a_lie_about_the_number_of_records_costs_no_memory(implementation: str) -> None:
    data = bytearray(damaged_batch(Random(1)))
    data[57:61] = (2**31 - 1).to_bytes(4)
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptBatch, match="do not fit"):
        decoder(implementation, check_crc=False).decode(bytes(data), 0, 9)
    assert pa.total_allocated_bytes() == before
