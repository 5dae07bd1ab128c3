"""Leader side of one partition: knows the in-sync set, moves the high watermark.

Invariant: within an epoch the high watermark never moves back.
Reads no clock and no file.
"""

from penstock.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from penstock.model import NO_LEADER_EPOCH


class PartitionLeader:
    """State of one leadership of a partition. Plain ints: this is on the hot path."""

    __slots__ = ("epoch", "high_watermark", "isr", "min_insync", "node_id")

    def __init__(
        self,
        node_id: int,
        epoch: int,
        isr: tuple[int, ...],
        high_watermark: int,
    ) -> None:
        assert node_id in isr, "a leader is in its own in-sync set"
        self.node_id = node_id
        self.epoch = epoch
        self.isr = isr
        self.min_insync = 1
        self.high_watermark = high_watermark

    def require(self, min_insync: int, replicas: int) -> None:
        """Set the in-sync replicas that a record needs, at most the number of replicas. Kafka caps
        the setting so, too; otherwise nothing would ever be committed."""
        self.min_insync = min(min_insync, replicas)

    def check_epoch(self, epoch: int) -> None:
        """Raise for a client with another leader epoch; -1 means that the client sent none."""
        if epoch not in (NO_LEADER_EPOCH, self.epoch):
            raise FencedLeaderEpoch if epoch < self.epoch else UnknownLeaderEpoch

    @property
    def below_min_insync(self) -> bool:
        return len(self.isr) < self.min_insync

    def advance(self, local_end: int) -> bool:
        """Count the leader's own log up to `local_end`. Return whether the high watermark moved.

        While the in-sync set is below min.insync.replicas nothing is committed, for acks=1
        either: a consumer could see records that the next leader lacks.
        """
        if local_end <= self.high_watermark or len(self.isr) < self.min_insync:
            return False
        self.high_watermark = local_end
        return True
