"""The metadata quorum of one: this node is the only voter, so it leads as soon as it starts.

Quorum satisfies machine.ReplicatedLog. Invariants: an epoch is on disk before it is used; the first
batch of an epoch names its leader; only what is synced counts as committed, and the committed
offset never moves back.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.errors import KafkaStorageError, NotController, RecordListTooLarge
from penstock.raft.control import control_record, read_control
from penstock.raft.errors import NotAVoter, NotServedYet, QuorumFilesCorrupt
from penstock.raft.protocols import (
    BATCH_BYTES_MAX,
    MetadataLog,
    QuorumFiles,
    SnapshotWriter,
)
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot, snapshot_batches
from penstock.raft.voters import KRAFT_VERSION_MAX, QuorumVoter, Voters, from_record, to_record
from penstock.raft.writing import BatchWriting, LogBatch
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    Header,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.records.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    VotersRecord,
)
from penstock.world import Clock, DiskFailed, DiskFull, Done

log = logging.getLogger("penstock.quorum")

READ_SLICE_BYTES = 128 * 1024


class Follower(Protocol):
    def gained(self) -> None: ...
    def lost(self) -> None: ...
    def committed(self, offset: int) -> None: ...


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """`voter_ids` is controller.quorum.voters where it is set (kraft.version 0)."""

    voter_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum, as DescribeQuorum shows it."""

    leader_id: int
    epoch: int
    high_watermark: int
    end_offset: int
    voters: Voters
    kraft_version: int


class Quorum:
    """The only voter. `encode` and `decode` turn the machine's records into bytes and back."""

    def __init__(
        self,
        files: QuorumFiles,
        clock: Clock,
        me: QuorumVoter,
        settings: QuorumSettings,
        *,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        failed: Callable[[DiskFailed], None],
    ) -> None:
        self._files = files
        self._clock = clock
        self._me = me
        self._settings = settings
        self._encode = encode
        self._decode = decode
        self._failed = failed
        self._log: MetadataLog | None = None
        self._follower: Follower | None = None
        self._leading = False
        self._epoch = 0
        self._kraft_version = 0
        self._voters: Voters = ()
        self._committed = 0
        self._syncing = False
        self._snapshot: Snapshot | None = None  # the one that was loaded; let go after the load
        self._snapshot_id: MetadataSnapshotId | None = None
        self._writing: SnapshotWriter | None = None
        self._bytes_since_snapshot = 0

    # Start and stop

    def start(self) -> None:
        """Find the end of the log, take the next epoch and lead. Waits for the disk."""
        others = [voter for voter in self._settings.voter_ids if voter != self._me.node_id]
        if others:
            raise NotServedYet(
                f"controller.quorum.voters names {len(self._settings.voter_ids)} voters; a quorum "
                f"of more than one is not served yet. Leave only node {self._me.node_id} in it."
            )
        self._files.prepare_now()
        self._load_snapshot()
        floor = self._snapshot.id.end_offset if self._snapshot else 0
        self._log = self._files.open_log(floor)
        if self._log.start_offset > floor:
            raise QuorumFilesCorrupt(
                f"The metadata log in {self._files.path} starts at offset "
                f"{self._log.start_offset}, and no snapshot covers what comes before. Restore the "
                "newest snapshot from a copy."
            )
        log_epoch = self._scan_log(floor)
        self._check_voters()
        self._take_epoch(log_epoch)
        self._begin_epoch()

    def stop(self) -> None:
        self._step_down()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _load_snapshot(self) -> None:
        self._snapshot = snapshot = self._files.load_newest_snapshot_now()
        if snapshot is not None:
            self._snapshot_id = snapshot.id
            self._kraft_version = snapshot.kraft_version
            self._voters = snapshot.voters

    def _scan_log(self, offset: int) -> int:
        """Read the quorum's own records from `offset` on; return the last epoch in the log."""
        epoch = self._snapshot.id.epoch if self._snapshot else 0
        log = self._opened()
        while data := log.read_now(offset, READ_SLICE_BYTES):
            for batch, header in _batches(data):
                offset = _end_offset(header)
                epoch = max(epoch, header[LEADER_EPOCH])
                self._bytes_since_snapshot += len(batch)
                if header[ATTRIBUTES] & CONTROL:
                    for record in read_records(batch):
                        self._take_in(read_control(record))
        return epoch

    def _take_in(self, message: Any) -> None:
        if isinstance(message, KRaftVersionRecord):
            self._kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self._voters = from_record(message)

    def _check_voters(self) -> None:
        if self._kraft_version > KRAFT_VERSION_MAX:
            raise NotServedYet(
                f"The metadata log is at kraft.version {self._kraft_version}; this server knows up "
                f"to {KRAFT_VERSION_MAX}. Start it with a newer server."
            )
        if self._kraft_version == 0:
            self._voters = (self._me,)
            return
        known = [voter for voter in self._voters if voter.node_id == self._me.node_id]
        if not known:
            ids = ", ".join(str(voter.node_id) for voter in self._voters) or "nobody"
            raise NotAVoter(
                f"The metadata log names {ids} as voters, not node {self._me.node_id}. Use the "
                "node.id that this directory was formatted with."
            )
        if len(self._voters) > 1:
            raise NotServedYet(
                f"The metadata log names {len(self._voters)} voters; a quorum of more than one is "
                "not served yet. Remove the other voters with kafka-metadata-quorum first."
            )
        if known[0].directory_id != self._me.directory_id:
            raise NotAVoter(
                f"Node {self._me.node_id} votes with another metadata directory than this one. Use "
                "the directory that was formatted for it."
            )

    def _take_epoch(self, log_epoch: int) -> None:
        stored = self._files.load_state_now()
        stored_epoch = stored.leader_epoch if stored else 0
        self._epoch = max(log_epoch, stored_epoch) + 1
        state = QuorumState(leader_epoch=self._epoch, leader_id=self._me.node_id)
        voter_ids = tuple(voter.node_id for voter in self._voters)
        try:
            self._files.store_state_now(state, voter_ids, self._kraft_version)
        except DiskFull as failure:
            # The only voter finds the epoch in the log again, which gets it before anything counts.
            log.warning("%s; the epoch %d is in the metadata log alone", failure, self._epoch)

    def _begin_epoch(self) -> None:
        log = self._opened()
        voters = [LeaderChangeVoter(voter_id=voter.node_id) for voter in self._voters]
        messages: list[Any] = [
            LeaderChangeMessage(
                leader_id=self._me.node_id, voters=voters, granting_voters=list(voters)
            )
        ]
        # An empty log takes over what formatting left in the first snapshot; later the voters are
        # written again when this node's endpoints have changed.
        empty = log.end_offset == 0
        moved = bool(self._me.endpoints) and self._voters != (self._me,)
        if self._kraft_version > 0 and (empty or moved):
            self._voters = (self._me,) if moved else self._voters
            if empty:
                messages.append(KRaftVersionRecord(kraft_version=self._kraft_version))
            messages.append(to_record(self._voters))
        now_ms = self._clock.wall_ms()
        base = log.end_offset
        records = [control_record(base + i, now_ms, each) for i, each in enumerate(messages)]
        self._leading = True
        batch = build_batch(records, base_offset=base, leader_epoch=self._epoch, control=True)
        self._store(batch)

    def _opened(self) -> MetadataLog:
        assert self._log is not None, "start() opens the log"
        return self._log

    # ReplicatedLog

    @property
    def end_offset(self) -> int:
        return self._opened().end_offset

    @property
    def committed_offset(self) -> int:
        return self._committed

    @property
    def epoch(self) -> int:
        return self._epoch

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def append(self, records: Sequence[Any]) -> LogBatch:
        """Write one atomic batch, which is committed after its sync."""
        writing = self.begin()
        writing.add(records)
        return writing.finish()

    def begin(self) -> BatchWriting:
        """Return a batch that is encoded in pieces."""
        return BatchWriting(self._encode, self._clock.wall_ms(), self._finish)

    def _finish(self, writing: BatchWriting) -> LogBatch:
        if not self._leading:
            raise NotController("This node does not lead the metadata quorum.")
        self._store(writing.seal(self.end_offset, self._epoch))
        return LogBatch(writing.records, self.end_offset, self._epoch, writing.now_ms)

    def _store(self, data: bytes) -> None:
        log = self._opened()
        if len(data) > BATCH_BYTES_MAX:
            raise RecordListTooLarge(
                f"The change needs {len(data)} bytes of metadata at once; at most "
                f"{BATCH_BYTES_MAX} are possible. Split it into several requests."
            )
        try:
            log.append(data)
        except DiskFull as failure:
            # Nothing of it remains: only this change is refused, reads and deletions go on.
            raise KafkaStorageError(
                f"No room for metadata in {self._files.path} ({failure}). Free some space."
            ) from failure
        except DiskFailed as failure:
            self._fail(failure)
            raise
        self._bytes_since_snapshot += len(data)
        self._sync()

    def _sync(self) -> None:
        """Sync the batches written so far, one sync at a time."""
        if self._syncing or not self._leading:
            return
        self._syncing = True
        end_offset = self.end_offset

        def synced(failure: DiskFailed | None) -> None:
            self._syncing = False
            if not self._leading:
                return
            if failure is not None:
                self._fail(failure)
                return
            assert end_offset >= self._committed, "the committed offset never moves back"
            self._committed = end_offset
            if self.end_offset > end_offset:
                self._sync()
            if self._follower is not None:
                self._follower.committed(end_offset)

        self._opened().flush(synced)

    def _fail(self, failure: DiskFailed) -> None:
        """Stop leading after a failure of the disk, and report it to the node."""
        self._step_down()
        self._failed(failure)

    def _step_down(self) -> None:
        self._leading = False
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if self._follower is not None:
            self._follower.lost()

    def read(self) -> "QuorumReader":
        """Return a reader of the snapshot and the log behind it."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None and self._snapshot_id is not None:
            snapshot = self._files.read_snapshot_now(self._snapshot_id)
        return QuorumReader(self._opened(), snapshot, self._decode)

    # Snapshots

    @property
    def snapshot_id(self) -> MetadataSnapshotId | None:
        """Return the id of the newest complete snapshot, or None."""
        return self._snapshot_id

    @property
    def bytes_since_snapshot(self) -> int:
        return self._bytes_since_snapshot

    @property
    def writing_snapshot(self) -> bool:
        return self._writing is not None

    def write_snapshot(
        self,
        snapshot_id: MetadataSnapshotId,
        values: Iterator[bytes],
        timestamp_ms: int,
        done: Done,
    ) -> None:
        """Write a snapshot in slices; `values` are the records of the committed state."""
        assert self._writing is None, "one snapshot at a time"
        assert snapshot_id.end_offset <= self._committed, "a snapshot holds committed records only"
        batches = snapshot_batches(
            snapshot_id,
            values,
            timestamp_ms=timestamp_ms,
            now_ms=self._clock.wall_ms(),
            kraft_version=self._kraft_version,
            voters=self._voters,
        )
        bytes_before = self._bytes_since_snapshot

        def written(failure: DiskFailed | None) -> None:
            self._writing = None
            # After a full disk too: the next attempt waits until it is due again.
            self._bytes_since_snapshot -= bytes_before
            if failure is None:
                self._snapshot_id = snapshot_id
                # The oldest kept snapshot covers this part of the log.
                self._opened().delete_before(self._files.delete_old_snapshots().end_offset)
            elif not isinstance(failure, DiskFull):
                self._fail(failure)
            done(failure)

        self._writing = self._files.snapshot_writer(snapshot_id, batches, written)
        self._writing.start()

    def describe(self) -> QuorumView:
        return QuorumView(
            leader_id=self._me.node_id if self._leading else -1,
            epoch=self._epoch,
            high_watermark=self._committed,
            end_offset=self.end_offset,
            voters=self._voters,
            kraft_version=self._kraft_version,
        )


class QuorumReader:
    """Reads all records to replay: first the snapshot, then the log behind it."""

    def __init__(
        self, log: MetadataLog, snapshot: Snapshot | None, decode: Callable[[bytes], Any]
    ) -> None:
        self._log = log
        self._snapshot = snapshot
        self._decode = decode
        self._offset = snapshot.id.end_offset if snapshot else 0

    def next_slice(self) -> list[LogBatch]:
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            records = [self._decode(value) for value in snapshot.values]
            end_offset, epoch = snapshot.id
            return [LogBatch(records, end_offset, epoch, snapshot.timestamp_ms)]
        slices = []
        for batch, header in _batches(self._log.read_now(self._offset, READ_SLICE_BYTES)):
            records = []
            if not header[ATTRIBUTES] & CONTROL:
                records = [self._decode(record.value or b"") for record in read_records(batch)]
            self._offset = _end_offset(header)
            slices.append(
                LogBatch(records, self._offset, header[LEADER_EPOCH], header[BASE_TIMESTAMP])
            )
        return slices


def _batches(data: bytes) -> Iterator[tuple[memoryview, Header]]:
    view = memoryview(data)
    for position, header in batch_headers(data):
        yield view[position : position + LENGTH_OVERHEAD + header[LENGTH]], header


def _end_offset(header: Header) -> int:
    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
