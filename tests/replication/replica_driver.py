"""Leaders, followers and logs of the tests, with short words for what happens to them."""

from collections.abc import Callable

from penstock.log.epochs import LeaderEpochs
from penstock.replication.fetched_records import whole_batches
from penstock.replication.follower import PartitionFollower
from penstock.replication.follower_progress import FetchContact
from penstock.replication.leader import PartitionLeader
from penstock.wire.batch import Record, batch_headers, build_batch
from penstock.wire.messages.k01_fetch import EpochEndOffset, PartitionData

TOPIC_ID = b"topic-of-tests--"
LAG_MS = 100.0


class StoredRecords:
    """A log in memory: offsets and epochs only."""

    def __init__(self, *epochs: tuple[int, int], start: int = 0, end: int = 0) -> None:
        self.epochs = LeaderEpochs(epochs)
        self.start_offset = start
        self.end_offset = end

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_of(epoch, self.end_offset)

    def append(self, records: memoryview) -> None:
        for _, header in batch_headers(records):
            self.epochs.note(header[2], header[0])
            self.end_offset = header[0] + header[6] + 1

    def truncate_to(self, offset: int) -> None:
        self.end_offset = min(self.end_offset, offset)
        self.epochs.cut_end(self.end_offset)


def batch(offset: int, epoch: int, records: int = 1) -> bytes:
    """Return a batch of empty records."""
    listed = [Record(offset + each, 0, None, b"") for each in range(records)]
    return build_batch(listed, base_offset=offset, leader_epoch=epoch)


def answer(
    *batches: bytes,
    watermark: int = 0,
    log_start: int = 0,
    error: int = 0,
    diverging: tuple[int, int] | None = None,
    partition: int = 0,
) -> PartitionData:
    """Return one partition of a leader's answer."""
    epoch_end = (
        EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        if diverging
        else EpochEndOffset()
    )
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=watermark,
        log_start_offset=log_start,
        diverging_epoch=epoch_end,
        records=b"".join(batches),
    )


def offsets_of(data: bytes, epoch: int) -> list[int]:
    """Return the base offsets of the batches that a follower in `epoch` takes."""
    return [header[0] for _, header in batch_headers(whole_batches(data, epoch).data)]


def follower_of(log: StoredRecords, epoch: int = 5) -> PartitionFollower:
    return PartitionFollower(TOPIC_ID, 0, log, 1, epoch)


class LedPartition:
    """Leader 1 of a partition with replicas 1 to 3, in epoch 5 from offset 10 on."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        *,
        end: int = 10,
        watermark: int = 10,
        min_insync: int = 2,
        is_eligible: Callable[[int, int], bool] = lambda _replica_id, _epoch: True,
        live_epoch: Callable[[int], int] = lambda _replica_id: 7,
    ) -> None:
        self.now = 1000.0
        self.end = end
        self.leader = PartitionLeader(
            1,
            4,
            (),
            watermark,
            is_eligible=is_eligible,
            live_epoch=live_epoch,
            lag_ms_max=LAG_MS,
        )
        self.leader.require(min_insync, 3)
        self.leader.begin(5, 20, isr, (1, 2, 3), end, self.now)
        self.contacts = {each: FetchContact(self.now) for each in (2, 3)}

    @property
    def watermark(self) -> int:
        return self.leader.high_watermark

    def append(self, end: int) -> bool:
        """Append up to `end`, synced at once. Return whether the high watermark moved."""
        self.end = end
        self.leader.appended(end)
        return self.leader.advance(end, self.now)

    def fetch(self, replica: int, offset: int, *, epoch: int = 7, log_start: int = 0) -> bool:
        """Let a fetch of a session arrive that names the partition."""
        self.beat(replica)
        return self.leader.fetched(
            replica, epoch, offset, log_start, self.now, self.contacts[replica]
        )

    def beat(self, replica: int) -> None:
        """Let a fetch arrive that names nothing."""
        self.contacts[replica].arrive(self.now)

    def whole(self, offset: int) -> None:
        """Let both followers fetch from an offset."""
        self.fetch(2, offset)
        self.fetch(3, offset)

    def proposed(self, replica: int) -> tuple[int, ...] | None:
        """Return the set proposed when a replica asks to join."""
        proposal = self.leader.joining(replica, self.now)
        return None if proposal is None else tuple(each for each, _ in proposal.isr)

    def shrunk(self) -> tuple[int, ...] | None:
        """Return the set proposed without those that lag."""
        proposal = self.leader.lagging(self.now, LAG_MS)
        return None if proposal is None else tuple(each for each, _ in proposal.isr)
