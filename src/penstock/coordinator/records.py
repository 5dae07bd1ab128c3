"""What a coordinator writes to its partition, and reads back from it.

A coordinator's log holds three kinds of batches: plain ones, those of somebody's transaction
(offsets committed by a transactional producer) and the markers that end a transaction.
"""

from typing import NamedTuple


class Record(NamedTuple):
    """A key and its value from `wire.records`; no value is a tombstone."""

    key: object
    value: object | None = None


class Pending(NamedTuple):
    """A record that counts once the transaction of its producer is committed."""

    producer_id: int
    producer_epoch: int
    key: object
    value: object | None = None


class EndMarker(NamedTuple):
    """The end of a producer's transaction in this partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool = False  # not stored: how strictly the log judges the epoch
