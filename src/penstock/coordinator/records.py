"""The records of a coordinator partition.

The log holds three kinds of batches: plain ones, offsets of transactional producers, and the
markers that end transactions.
"""

from typing import NamedTuple


class CoordinatorRecord(NamedTuple):
    """A key and its value from `wire.records`; no value is a tombstone."""

    key: object
    value: object | None = None


class PendingOffset(NamedTuple):
    """A record that counts once the transaction of its producer is committed."""

    producer_id: int
    producer_epoch: int
    key: object
    value: object | None = None


class EndMarker(NamedTuple):
    """The end of a producer's transaction in a partition; as an event, the order to write it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool = False  # not stored: how strictly the log judges the epoch
