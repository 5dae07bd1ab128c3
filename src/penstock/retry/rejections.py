"""Failures of a transaction that one of its records has caused: pure.

A topic rejects a whole batch, and the transaction fails as a whole. The rejected record is known
only when it is alone in a transaction.
"""

from collections.abc import Iterable

from penstock.client.failures import (
    InvalidArgument,
    OtherRecordInvalid,
    SerializationError,
    UnknownPartition,
    is_fatal,
)
from penstock.client.producer import RecordsUndelivered
from penstock.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedForMessageFormat,
)
from penstock.retry.partition_state import PartitionState, Portion

# Errors of one record, raised by its topic or by the producer before the send.
_OF_A_RECORD = (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OtherRecordInvalid,
    RecordListTooLarge,
    SerializationError,
    UnknownPartition,
    UnsupportedForMessageFormat,
)
# Errors of one record if the producer raises these when the record is handed over.
_OF_WHAT_IS_SENT = (*_OF_A_RECORD, InvalidArgument, OverflowError, TypeError, ValueError)


def rejection_in(error: BaseException) -> Exception | None:
    """Return the rejection of a record in a failed transaction; None for other failures."""
    if isinstance(error, RecordsUndelivered):
        if is_fatal(error):
            return None
        told = [each.error for each in error.failures if isinstance(each.error, _OF_A_RECORD)]
        # Records in the same batch as the rejected one fail, too.
        own = [each for each in told if not isinstance(each, OtherRecordInvalid)]
        return next(iter([*own, *told]), None)
    return error if isinstance(error, _OF_A_RECORD) and not is_fatal(error) else None


def is_unfit(error: BaseException) -> bool:
    """Return whether an error at the handover means that the record can never be sent."""
    return isinstance(error, _OF_WHAT_IS_SENT) and not is_fatal(error)


def limit_portions(
    parts: Iterable[tuple[PartitionState, Portion]], entries_max: int
) -> list[tuple[PartitionState, Portion]]:
    """Return portions with at most `entries_max` records, from the fronts."""
    taken, room = list[tuple[PartitionState, Portion]](), entries_max
    for partition_state, portion in parts:
        part = Portion(portion.entries[:room])
        room -= len(part.entries)
        if part:
            taken.append((partition_state, part))
    return taken


def end_of_producer(error: BaseException) -> Exception | None:
    """Return the fatal error of the producer if records were not delivered because of it."""
    if not isinstance(error, RecordsUndelivered):
        return None
    return next((each.error for each in error.failures if is_fatal(each.error)), None)
