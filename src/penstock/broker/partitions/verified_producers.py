"""Producers that a transaction coordinator has verified for one partition.

An open transaction does not prove its owner: with two-phase commit, a new owner may have taken the
transaction over (KIP-939). So the coordinator verifies each producer once, and again when this node
begins to lead, when the transaction has ended, and when a new owner takes it over. All of this is
soft state: a forgotten entry costs one request. A revoked epoch is remembered: an answer that the
coordinator gave before the take-over may come after it.
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import OutOfOrderSequenceNumber, ProducerFenced
from penstock.model import NO_PRODUCER_EPOCH
from penstock.wire.batch import Header
from penstock.world import Buffer

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition, Ticket

# Producers that were rejected and may retry; the oldest are forgotten first.
REJECTED_MAX = 10_000
# Producers whose transaction was taken over; the oldest are forgotten first.
REVOKED_MAX = 10_000
# Epochs of one producer, each with its lowest sequence; the oldest are forgotten first.
EPOCHS_MAX = 8


class VerifiedProducers:
    """State of transactional producers that a leader has beside its log."""

    __slots__ = ("lowest", "revoked", "vouched")

    def __init__(self) -> None:
        self.vouched: dict[int, int] = {}  # producer id -> epoch
        # producer id -> epoch -> lowest sequence, of producers that the log does not know
        self.lowest: dict[int, dict[int, int]] = {}
        self.revoked: dict[int, int] = {}  # producer id -> highest epoch of a former owner

    def note_sequence(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Note the sequence of a batch that waits for the coordinator, which may reject it."""
        known = self.lowest.get(producer_id)
        if known is None:
            if len(self.lowest) >= REJECTED_MAX:
                del self.lowest[next(iter(self.lowest))]
            self.lowest[producer_id] = {epoch: sequence}
            return
        if epoch not in known and len(known) >= EPOCHS_MAX:
            del known[next(iter(known))]
        known[epoch] = min(sequence, known.get(epoch, sequence))

    def begin(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Raise OutOfOrderSequenceNumber if a batch with a lower sequence was rejected before. The
        log accepts any first sequence; the rejected batch would then stay out of order (KIP-890).

        A new epoch starts its sequences again, so gaps of older epochs do not count. A higher epoch
        may be forged, so it excuses no gap.
        """
        known = self.lowest.get(producer_id, {})
        missed = [lowest for later, lowest in known.items() if later >= epoch and lowest < sequence]
        if missed:
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id} sent sequence {sequence}, and {min(missed)} before, which "
                "was not stored"
            )
        self.lowest.pop(producer_id, None)

    def vouch(self, producer_id: int, epoch: int) -> None:
        """Let a producer write that its coordinator has verified. Raise ProducerFenced if a new
        owner has taken its transaction over since."""
        if epoch <= self.revoked.get(producer_id, NO_PRODUCER_EPOCH):
            raise ProducerFenced(f"the transaction of producer {producer_id} has a new owner")
        self.vouched[producer_id] = epoch

    def ended(self, producer_id: int) -> None:
        """Forget a producer whose transaction has ended."""
        self.vouched.pop(producer_id, None)
        self.lowest.pop(producer_id, None)

    def revoke(self, producer_id: int, epoch: int) -> None:
        """Let a producer write no more, up to an epoch: its transaction has a new owner."""
        if self.vouched.get(producer_id, epoch + 1) <= epoch:
            del self.vouched[producer_id]
        known = self.revoked.pop(producer_id, NO_PRODUCER_EPOCH)
        if len(self.revoked) >= REVOKED_MAX:
            del self.revoked[next(iter(self.revoked))]
        self.revoked[producer_id] = max(known, epoch)

    def forget(self) -> None:
        self.vouched.clear()
        self.lowest.clear()
        self.revoked.clear()


class TransactionalBatch(NamedTuple):
    """A batch of a transaction that has passed every other check."""

    partition: "Partition"
    records: Buffer
    header: Header
    ticket: "Ticket"


class PendingVerification:
    """Batches of one producer that wait at one partition for the transaction coordinator."""

    __slots__ = ("batches", "copied_bytes", "ended", "leader_epoch")

    def __init__(self, batches: list[TransactionalBatch], leader_epoch: int) -> None:
        self.batches = batches
        self.leader_epoch = leader_epoch  # of the request to the coordinator
        self.copied_bytes = 0
        self.ended = False  # a marker came while they waited
