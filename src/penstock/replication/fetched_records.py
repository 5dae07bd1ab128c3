"""Records in an answer to a follower's Fetch: whole batches up to one leader epoch."""

from typing import NamedTuple

from penstock.wire.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    batch_headers,
)
from penstock.wire.primitives import Buffer


class FetchedRecords(NamedTuple):
    """Whole batches of an answer, untouched. Without a batch both offsets are -1."""

    data: memoryview
    first_offset: int
    first_batch_end: int  # the offset after the first batch


NO_RECORDS = FetchedRecords(memoryview(b""), -1, -1)


def whole_batches(records: Buffer | None, leader_epoch: int) -> FetchedRecords:
    """Return the leading whole batches whose epochs are at most `leader_epoch`.

    A leader that loses its leadership while it answers may append records of a later leader, and
    send them. The follower asked in an older epoch, in which these offsets may hold other records,
    so the first such batch and all after it are left out (KAFKA-18723).
    """
    if not records:
        return NO_RECORDS
    view = memoryview(records)
    end, first_offset, first_batch_end = 0, -1, -1
    for position, header in batch_headers(view):
        if header[LEADER_EPOCH] > leader_epoch:
            break
        if first_batch_end < 0:
            first_offset = header[BASE_OFFSET]
            first_batch_end = first_offset + header[LAST_OFFSET_DELTA] + 1
        end = position + header[LENGTH] + LENGTH_OVERHEAD
    return FetchedRecords(view[:end], first_offset, first_batch_end)
