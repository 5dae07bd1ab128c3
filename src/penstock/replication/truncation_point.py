"""Where a follower cuts its log to become a prefix of its leader's."""

from typing import Protocol


class FollowerLog(Protocol):
    """The log of a follower, as far as its replication reads it."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """Return the last leader epoch that the log knows, also one without records; -1 without
        any."""
        ...

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch at or below `epoch` and its end offset. If all known
        epochs are larger, return `epoch` and the start of the first one. Return -1 twice if
        `epoch` is newer than all."""
        ...


def truncation_offset(log: FollowerLog, leader_epoch: int, leader_end: int) -> int:
    """Return the end of what both logs share, as far as one question of epochs can tell.

    The leader's answer names its largest epoch at or below the follower's last one, and the end of
    that epoch. If the follower lacks this epoch, its log ends where its own smaller epoch ends, and
    the next fetch asks again. A log without epochs has nothing to compare.
    """
    end_offset = log.end_offset
    own_epoch, own_end = log.epoch_end(leader_epoch)
    if own_end < 0:
        return min(leader_end, end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, end_offset)
    return min(own_end, leader_end, end_offset)
