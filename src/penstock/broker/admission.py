"""Who may go on with an open transaction in one partition without its coordinator being asked.

That a transaction is open says nothing about who owns it by now: with two-phase commit a new owner
may have taken it over (KIP-939). So the coordinator vouches for each producer once, and is asked
again when this node begins to lead, when the transaction has ended, and when it was taken over.
All of it is soft: what is forgotten costs a question.
"""

from penstock.errors import OutOfOrderSequenceNumber

# Producers that were refused and may come again; the oldest are forgotten first.
REFUSED_MAX = 10_000
# Of one producer, each with the lowest sequence that came with it: likewise.
EPOCHS_MAX = 8


class Admission:
    """What a leader knows beyond its log of the producers that write in transactions."""

    __slots__ = ("lowest", "vouched")

    def __init__(self) -> None:
        self.vouched: dict[int, int] = {}  # producer id -> epoch
        # producer id -> epoch -> lowest sequence, of producers that the log does not know
        self.lowest: dict[int, dict[int, int]] = {}

    def came(self, producer_id: int, epoch: int, sequence: int) -> None:
        """A batch waits for the coordinator, and may be refused by it."""
        known = self.lowest.get(producer_id)
        if known is None:
            if len(self.lowest) >= REFUSED_MAX:
                del self.lowest[next(iter(self.lowest))]
            self.lowest[producer_id] = {epoch: sequence}
            return
        if epoch not in known and len(known) >= EPOCHS_MAX:
            del known[next(iter(known))]
        known[epoch] = min(sequence, known.get(epoch, sequence))

    def begin(self, producer_id: int, epoch: int, sequence: int) -> None:
        """A log takes any first sequence of an older producer. One that came before was refused
        and will come again: after this it would be out of order for ever (KIP-890). Once one is
        let in the log judges the others.

        A new epoch begins its sequences anew: what older ones lost is nothing to it. An epoch can
        be made up, so a later one hides nothing either.
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
        self.vouched[producer_id] = epoch

    def ended(self, producer_id: int) -> None:
        """The producer's transaction has ended here."""
        self.vouched.pop(producer_id, None)
        self.lowest.pop(producer_id, None)

    def taken_over(self, producer_id: int, epoch: int) -> None:
        """Somebody else owns the transaction of this producer."""
        if self.vouched.get(producer_id) == epoch:
            del self.vouched[producer_id]

    def forget(self) -> None:
        self.vouched.clear()
        self.lowest.clear()
