"""Which failures of a transaction belong to one record in it, and not to all: pure.

A topic answers for a whole batch, and the transaction fails as a whole: that something in it was
refused is known at once, which record it was only when it stands alone.
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
from penstock.retry.course import Course, Portion

# Of a record, whoever finds it: its topic, or the producer before it is sent.
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
# Of a record if they are raised where it is handed over: its parts are not what can be sent.
_OF_WHAT_IS_SENT = (*_OF_A_RECORD, InvalidArgument, OverflowError, TypeError, ValueError)


def refusal_in(error: BaseException) -> Exception | None:
    """Why a record was refused, if that is what failed."""
    if isinstance(error, RecordsUndelivered):
        if is_fatal(error):
            return None
        told = [each.error for each in error.failures if isinstance(each.error, _OF_A_RECORD)]
        # Those that were only beside it are told of it, too.
        own = [each for each in told if not isinstance(each, OtherRecordInvalid)]
        return next(iter([*own, *told]), None)
    return error if isinstance(error, _OF_A_RECORD) and not is_fatal(error) else None


def is_unfit(error: BaseException) -> bool:
    """Whether a record cannot be sent at all: raised when it was handed over."""
    return isinstance(error, _OF_WHAT_IS_SENT) and not is_fatal(error)


def narrowed(
    parts: Iterable[tuple[Course, Portion]], entries_max: int
) -> list[tuple[Course, Portion]]:
    """From the fronts of courses, at most so many entries."""
    taken, room = list[tuple[Course, Portion]](), entries_max
    for course, portion in parts:
        part = Portion(portion.entries[:room])
        room -= len(part.entries)
        if part:
            taken.append((course, part))
    return taken


def end_of_producer(error: BaseException) -> Exception | None:
    """Why the producer is of no more use, if that is why records were not delivered."""
    if not isinstance(error, RecordsUndelivered):
        return None
    return next((each.error for each in error.failures if is_fatal(each.error)), None)
