"""Replicas that fetch: records, truncation, the watermark and snapshots from the leader.

Invariants: a voter fetches only from a synced end; one fetch is in flight; an answer counts only in
the epoch and role it was asked in; committed records are never truncated.
"""

from penstock.errors import PositionOutOfRange, SnapshotNotFound
from penstock.raft.control import read_control
from penstock.raft.fetch_rules import truncation_offset
from penstock.raft.log_view import BOOTSTRAP_SNAPSHOT, EpochEnd, StoredSnapshot
from penstock.raft.quorum_effects import (
    AppendBatches,
    DropDownload,
    InstallSnapshot,
    StoreSlice,
    TruncateLog,
)
from penstock.raft.quorum_events import SnapshotInstalled
from penstock.raft.quorum_messages import endpoint_in, fetch_request, fetch_snapshot_request
from penstock.raft.replica import RaftReplica
from penstock.raft.request_rules import OK, is_metadata_topic, settle_answer
from penstock.raft.roles import FollowerRole, SnapshotDownload
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    CorruptBatch,
    Header,
    batch_headers,
    checksum_holds,
    read_records,
)
from penstock.wire.messages import k01_fetch as fetch
from penstock.wire.messages import k59_fetch_snapshot as fetch_snapshot
from penstock.wire.primitives import Buffer

# -- requests


def poll_follower(replica: RaftReplica, role: FollowerRole, now_ms: float) -> bool:
    """Fetch, or begin an election when the leader is silent; return whether the role changed."""
    if replica.installing is not None or replica.shutting_down:
        return False
    if replica.is_voter and now_ms >= role.fetch_deadline_ms:
        replica.become_prospective(now_ms)
        return True
    if replica.requests.has_any or not replica.is_synced:
        return False
    if not replica.requests.is_ready(replica.leader_id):
        # The leader failed a moment ago: another voter may know the next one.
        fetch_from_any(replica, now_ms)
    elif role.download is not None:
        request = fetch_snapshot_request(replica, role.download)
        replica.send(replica.leader_id, request, now_ms)
    else:
        replica.send(replica.leader_id, fetch_request(replica), now_ms)
    return False


def fetch_from_any(replica: RaftReplica, now_ms: float) -> None:
    """Send a fetch to a random node, to learn the leader from its answer."""
    if replica.requests.has_any or not replica.is_synced or replica.installing is not None:
        return
    nodes = replica.settings.bootstrap_ids or tuple(v.node_id for v in replica.history.latest)
    ready = [n for n in nodes if n != replica.me.node_id and replica.requests.is_ready(n)]
    if ready:
        node_id = ready[replica.random_below(len(ready))]
        replica.send(node_id, fetch_request(replica), now_ms)


# -- answers


def handle_fetch_answer(replica: RaftReplica, response: fetch.FetchResponse, now_ms: float) -> bool:
    """Take over records; return False if the node has to be left alone for a moment."""
    match response.responses:
        case [fetch.FetchableTopicResponse(partitions=[partition]) as topic] if (
            response.error_code == OK and is_metadata_topic(topic) and not partition.partition_index
        ):
            leader = partition.current_leader
        case _:
            return False
    endpoint = endpoint_in(replica, leader.leader_id, response.node_endpoints)
    settled = settle_answer(
        replica, partition.error_code, leader.leader_id, leader.leader_epoch, endpoint, now_ms
    )
    if settled is not None:
        return settled
    if partition.error_code or not isinstance(replica.role, FollowerRole):
        return False
    if not _take_over(replica, replica.role, partition):
        return False
    replica.role.fetch_deadline_ms = now_ms + replica.settings.fetch_timeout_ms
    replica.role.has_fetched = True
    return True


def _take_over(replica: RaftReplica, role: FollowerRole, partition: fetch.PartitionData) -> bool:
    """Truncate, begin a download, or append, as the leader says; return False for nonsense."""
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    if diverging.epoch >= 0:
        truncate_log(replica, EpochEnd(diverging.epoch, diverging.end_offset))
    elif snapshot.epoch >= 0 or snapshot.end_offset >= 0:
        snapshot_id = MetadataSnapshotId(snapshot.end_offset, snapshot.epoch)
        if min(snapshot_id) < 0 or snapshot_id == BOOTSTRAP_SNAPSHOT:
            return False
        if replica.log.find_snapshot(snapshot_id) is None:
            role.download = SnapshotDownload(snapshot_id)
    else:
        if partition.records and not append_fetched(replica, partition.records):
            return False
        if partition.high_watermark >= 0:
            replica.commit(min(partition.high_watermark, replica.log.end_offset))
    return True


def truncate_log(replica: RaftReplica, diverging: EpochEnd) -> None:
    """Drop records that the leader does not have. Raise CommittedTruncation for committed ones:
    those below the high watermark, and those in a snapshot."""
    latest = replica.log.latest_snapshot
    covered = max(replica.log.start_offset, latest.end_offset if latest is not None else 0)
    committed = max(replica.high_watermark, covered)
    offset = truncation_offset(replica.log, diverging, committed)
    replica.truncate_log(offset)
    replica.effects.append(TruncateLog(offset))


def append_fetched(replica: RaftReplica, records: Buffer) -> bool:
    """Append the sound batches that continue the log; return whether there were any."""
    view = memoryview(records)
    end = 0
    try:
        for position, header in batch_headers(records):
            batch = view[position : position + LENGTH_OVERHEAD + header[LENGTH]]
            if not _continues(replica, header) or not checksum_holds(batch, header):
                break
            note_batch(replica, batch, header)
            end = position + len(batch)
    except CorruptBatch:
        pass  # the sound batches before it count
    if end:
        replica.effects.append(AppendBatches(view[:end]))
    return end > 0


def _continues(replica: RaftReplica, header: Header) -> bool:
    """Return whether a batch follows the log; no batch is newer than its leader (KAFKA-18723)."""
    return (
        header[BASE_OFFSET] == replica.log.end_offset
        and replica.log.last_epoch <= header[LEADER_EPOCH] <= replica.epoch
    )


def note_batch(replica: RaftReplica, batch: memoryview, header: Header) -> bool:
    """Note an appended batch; return whether it has changed the voters."""
    base_offset = header[BASE_OFFSET]
    replica.log.append(
        base_offset, base_offset + header[LAST_OFFSET_DELTA] + 1, header[LEADER_EPOCH]
    )
    if not header[ATTRIBUTES] & CONTROL:
        return False
    return replica.history.add_all(base_offset, map(read_control, read_records(batch)))


def handle_snapshot_answer(
    replica: RaftReplica, response: fetch_snapshot.FetchSnapshotResponse, now_ms: float
) -> bool:
    """Store a part of a snapshot; return False if the node has to be left alone for a moment."""
    match response.topics:
        case [fetch_snapshot.ResponseTopicSnapshot(partitions=[partition])] if (
            response.error_code == OK
        ):
            leader = partition.current_leader
        case _:
            return False
    endpoint = endpoint_in(replica, leader.leader_id, response.node_endpoints)
    settled = settle_answer(
        replica, partition.error_code, leader.leader_id, leader.leader_epoch, endpoint, now_ms
    )
    if settled is not None:
        return settled
    role = replica.role
    if not isinstance(role, FollowerRole) or role.download is None:
        return False
    if partition.error_code == PositionOutOfRange.code:
        # The leader has other bytes under this id: the download begins again, after a moment.
        _drop_download(replica, role, role.download)
        return False
    if partition.error_code not in (OK, SnapshotNotFound.code):
        return False
    snapshot_id = MetadataSnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    if partition.error_code == SnapshotNotFound.code or min(snapshot_id) < 0:
        # The leader has a newer snapshot by now: its next answer names that one.
        _drop_download(replica, role, role.download)
    elif not _store_slice(replica, role, role.download, snapshot_id, partition):
        return False
    role.fetch_deadline_ms = now_ms + replica.settings.fetch_timeout_ms
    role.has_fetched = True
    return True


def _drop_download(replica: RaftReplica, role: FollowerRole, download: SnapshotDownload) -> None:
    replica.effects.append(DropDownload(download.snapshot_id))
    role.download = None


def _store_slice(
    replica: RaftReplica,
    role: FollowerRole,
    download: SnapshotDownload,
    snapshot_id: MetadataSnapshotId,
    partition: fetch_snapshot.ResponsePartitionSnapshot,
) -> bool:
    """Store a slice, and install a complete snapshot; return False for a wrong slice."""
    data = partition.unaligned_records
    end = download.position + len(data)
    expected = (download.snapshot_id, download.position)
    if (snapshot_id, partition.position) != expected or not data or end > partition.size:
        return False
    replica.effects.append(StoreSlice(snapshot_id, download.position, data))
    download.position = end
    if end == partition.size:
        role.download = None
        replica.installing = snapshot_id
        replica.effects.append(InstallSnapshot(snapshot_id))
    return True


def install_snapshot(replica: RaftReplica, installed: SnapshotInstalled, now_ms: float) -> None:
    """Begin the log again behind an installed snapshot, which holds committed records only."""
    assert replica.installing == installed.snapshot_id, "one installation at a time"
    end_offset = installed.snapshot_id.end_offset
    replica.installing = None
    replica.log.begin_at(StoredSnapshot(installed.snapshot_id, installed.size_bytes))
    replica.history.load(end_offset, installed.kraft_version, installed.voters)
    if replica.sync_end_offset is not None:
        replica.sync_end_offset = end_offset
    replica.commit(end_offset)
    if isinstance(replica.role, FollowerRole):
        replica.role.fetch_deadline_ms = now_ms + replica.settings.fetch_timeout_ms
