"""The reaction to records that are gone before a query has read them.

failOnDataLoss decides: true stops the query with the reason, false continues with the rest and logs
a warning. No record is skipped without one of them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from penstock.model import TopicPartition
from penstock.spark.source.positions import Position

logger = logging.getLogger("penstock.spark")

WAY_OUT = (
    "To go on with what is left, set failOnDataLoss=false; to read all that is there, start with a "
    "new checkpoint"
)
OTHER_OFFSETS = "Say other offsets; or set failOnDataLoss=false to read what is there"
SUBSCRIBE_AGAIN = "Subscribe to them again; or set failOnDataLoss=false to go on without them"
SAID_MAX = 1_000  # a query may run for years


class DataLoss(RuntimeError):
    """Records are gone that the query had not read yet."""


class Losses:
    """Reports lost records."""

    def __init__(self, fail: bool) -> None:
        self._fail = fail
        self._said: set[str] = set()

    def report(self, sentence: str, way_out: str = WAY_OUT) -> None:
        """Raise DataLoss, or warn and return. The end of a batch and its shares are planned one
        after the other and meet the same loss, which is reported once."""
        if self._fail:
            raise DataLoss(f"{sentence}. {way_out}.")
        if sentence in self._said:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said.add(sentence)
        logger.warning("%s; going on with what is left (failOnDataLoss=false)", sentence)


def within_log(
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    option: str,
    losses: Losses,
) -> dict[TopicPartition, int]:
    """Return the offsets that a job has named, none of them beyond the end of its partition."""
    for each, offset in offsets.items():
        if offset > ends[each]:
            losses.report(
                f"{option} says {offset} for {each}, which ends at {ends[each]}", OTHER_OFFSETS
            )
    return {each: min(offset, ends[each]) for each, offset in offsets.items()}


def base_of(
    start: Position,
    now: Position,
    earliest: Mapping[TopicPartition, int],
    losses: Losses,
    asks_for: Callable[[TopicPartition], bool],
) -> dict[TopicPartition, int]:
    """Return the next offset of each existing partition.

    `earliest` has the first offsets of partitions that `start` does not know (`unknown_to`);
    `asks_for` tells whether the query still subscribes to a topic.
    """
    gone = sorted(set(start.offsets) - set(now.offsets))
    left_out = [each for each in gone if not asks_for(each)]
    deleted = [each for each in gone if asks_for(each)]
    if left_out:
        losses.report(
            f"{_listed(left_out)} were read by this query, which does not subscribe to them any "
            "more: what had not been read of them is left out",
            SUBSCRIBE_AGAIN,
        )
    if deleted:
        losses.report(f"{_listed(deleted)} were deleted, with what had not been read of them")
    anew = sorted({each.topic for each in now.offsets if not start.same_topic(now, each.topic)})
    if anew:
        losses.report(f"{', '.join(anew)} were deleted and created again: these are other records")
    base: dict[TopicPartition, int] = {}
    for each, end in now.offsets.items():
        known = start.offsets.get(each)
        if known is None or each in earliest:
            base[each] = earliest[each]
            continue
        if end < known:
            losses.report(
                f"{each} ends at {end} and was read up to {known}: "
                "records were lost, by an unclean leader election or with a disk"
            )
        base[each] = min(known, end)
    return base


def unknown_to(start: Position, now: Position) -> list[TopicPartition]:
    """Return partitions that are read from their start: new ones, and those of recreated topics."""
    return [
        each
        for each in now.offsets
        if each not in start.offsets or not start.same_topic(now, each.topic)
    ]


def _listed(partitions: Sequence[TopicPartition], most: int = 10) -> str:
    names = [str(each) for each in partitions[:most]]
    more = len(partitions) - most
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
