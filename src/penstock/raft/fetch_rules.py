"""Position of a fetch in the log of the leader: valid, diverging, or only in a snapshot."""

from typing import NamedTuple

from penstock.raft.errors import CommittedTruncation
from penstock.raft.log_view import BOOTSTRAP_SNAPSHOT, EpochEnd, LogView
from penstock.raft.snapshot import MetadataSnapshotId


class FetchPosition(NamedTuple):
    """A verdict on offset and last epoch of a fetch. Without fields set, the position is valid."""

    diverging: EpochEnd | None = None
    snapshot_id: MetadataSnapshotId | None = None

    @property
    def is_valid(self) -> bool:
        return self.diverging is None and self.snapshot_id is None


VALID = FetchPosition()


def judge_position(log: LogView, offset: int, last_epoch: int) -> FetchPosition:
    """Return the verdict on a replica whose log ends at `offset`, in `last_epoch`."""
    latest, earliest = log.latest_snapshot, log.earliest_snapshot
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        return FetchPosition(snapshot_id=latest)  # faster than all records one by one
    if offset == 0 and log.start_offset == 0:
        return VALID
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and last_epoch != earliest.epoch)
        or last_epoch < earliest.epoch
    ):
        return FetchPosition(snapshot_id=latest)
    end = log.end_of_epoch(last_epoch)
    if end.epoch != last_epoch or end.end_offset < offset:
        return FetchPosition(diverging=end)
    return VALID


def truncation_offset(log: LogView, diverging: EpochEnd, committed: int) -> int:
    """Return where a follower truncates its log after an answer with a diverging epoch.

    Raise CommittedTruncation if that is below the end of the committed records.
    """
    own = log.end_of_epoch(diverging.epoch)
    if diverging.epoch == 0:
        offset = min(diverging.end_offset, log.end_offset)
    elif own.epoch == diverging.epoch:
        offset = min(own.end_offset, diverging.end_offset)
    else:
        offset = own.end_offset
    if min(offset, diverging.end_offset) < committed:
        raise CommittedTruncation(
            f"The leader asks for a truncation to offset {offset} (its epoch {diverging.epoch} "
            f"ends at {diverging.end_offset}), and all below {committed} is committed. "
            "Committed metadata differs between controllers: stop this node, keep its directory, "
            "and compare the logs with kafka-dump-log."
        )
    return offset
