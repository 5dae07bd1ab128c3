"""Deliberate bugs of whole nodes, each switched on by a patch of the node's own code."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from own_thread import patch_own_thread
from penstock.broker.metadata.quorum_controller import QuorumController
from penstock.broker.partitions.partition import Partition
from penstock.broker.storage.log_dir import LogDirectory
from penstock.controller import broker_heartbeats
from penstock.controller.broker_sessions import BrokerSessions
from penstock.controller.brokers import check_broker_epoch
from penstock.controller.controller import ControllerRequest
from penstock.controller.image import BrokerImage, Image
from penstock.controller.image_records import image_records
from penstock.controller.records import encode_record
from penstock.machine.runtime import Runtime, RuntimeState
from penstock.raft import quorum_reader
from penstock.raft.quorum import Quorum
from penstock.raft.snapshot import MetadataSnapshotId, snapshot_batches
from penstock.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest


@dataclass(frozen=True, slots=True)
class ClusterMutant:
    """A bug, a seed that is known to meet it, and the length of a sweep that has to."""

    name: str
    switch_on: Callable[[pytest.MonkeyPatch], None]
    caught_by: int
    seeds: int


def act_before_replay(patch: pytest.MonkeyPatch) -> None:
    gained = Runtime.gained

    def gained_at_once(runtime: Runtime[Any]) -> None:
        if runtime.state is not RuntimeState.FOLLOWING:
            gained(runtime)
            return
        runtime._active_at = runtime._committed = None
        runtime._activate()

    patch_own_thread(patch, Runtime, "gained", gained_at_once)


def reply_before_commit(patch: pytest.MonkeyPatch) -> None:
    park = Runtime._park

    def park_nowhere(runtime: Runtime[Any], _offset: int, *rest: Any) -> None:
        park(runtime, 0, *rest)

    patch_own_thread(patch, Runtime, "_park", park_nowhere)


def believe_old_broker_epochs(patch: pytest.MonkeyPatch) -> None:
    def check_id_alone(image: Image, broker_id: int, broker_epoch: int) -> BrokerImage:
        known = image.brokers.get(broker_id)
        return known if known is not None else check_broker_epoch(image, broker_id, broker_epoch)

    patch_own_thread(patch, broker_heartbeats, "check_broker_epoch", check_id_alone)


def count_contact_after_the_queue(patch: pytest.MonkeyPatch) -> None:
    def submit(
        controller: QuorumController, message: Any, version: int, done: Callable[[Any], None]
    ) -> None:
        def answered(reply: Any) -> None:
            if isinstance(message, BrokerHeartbeatRequest):
                now_ms = controller._clock.mono_ms()
                controller._sessions.contact(message.broker_id, message.broker_epoch, now_ms)
            done(reply)

        request = ControllerRequest(message, version, controller._entropy.uuid())
        controller._runtime.submit(request, answered)

    patch_own_thread(patch, QuorumController, "submit", submit)


def snapshot_the_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Write the machine's image instead of the published one, without the assertions on the way."""

    def snapshot(controller: QuorumController, done: Any = lambda _failure: None) -> bool:
        image = controller._runtime.machine.image
        newest, end_offset = controller._quorum.snapshot_id, image.offset + 1
        is_new = image.offset >= 0 and (newest is None or newest.end_offset < end_offset)
        if controller._quorum.writing_snapshot or not is_new:
            return False
        version = image.metadata_version
        values = (encode_record(record, version) for record in image_records(image))
        snapshot_id = MetadataSnapshotId(end_offset, image.epoch)
        controller._quorum.write_snapshot(snapshot_id, values, image.timestamp_ms, done)
        return True

    def write_snapshot(
        quorum: Quorum,
        snapshot_id: MetadataSnapshotId,
        values: Iterator[bytes],
        timestamp_ms: int,
        done: Any,
    ) -> None:
        history = quorum._running().replica.history
        batches = snapshot_batches(
            snapshot_id,
            values,
            timestamp_ms=timestamp_ms,
            now_ms=quorum._clock.wall_ms(),
            kraft_version=history.kraft_version_before(snapshot_id.end_offset),
            voters=history.voters_before(snapshot_id.end_offset),
        )
        quorum._snapshots.write(snapshot_id, batches, done)

    patch_own_thread(patch, QuorumController, "snapshot", snapshot)
    patch_own_thread(patch, Quorum, "write_snapshot", write_snapshot)


def acknowledge_before_sync(patch: pytest.MonkeyPatch) -> None:
    begin = LogDirectory.__init__

    def begin_without_waits(directory: LogDirectory, *given: Any, **settings: Any) -> None:
        begin(directory, *given, **{**settings, "waits_for_sync": False})

    patch_own_thread(patch, LogDirectory, "__init__", begin_without_waits)


def lead_while_fenced(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, Partition, "follow", lambda _partition, _state: None)


def forget_sessions(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, BrokerSessions, "has_session", lambda *_arguments: False)


def replay_rotten_records(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, quorum_reader, "checksum_holds", lambda _batch, _header: True)


CLUSTER_MUTANTS = (
    ClusterMutant(
        "a controller acts before it has replayed", act_before_replay, caught_by=1, seeds=200
    ),
    ClusterMutant(
        "the controller replies before the commit", reply_before_commit, caught_by=1, seeds=200
    ),
    ClusterMutant(
        "an old broker epoch is believed", believe_old_broker_epochs, caught_by=36, seeds=200
    ),
    ClusterMutant(
        "a session counts from the answer", count_contact_after_the_queue, caught_by=6, seeds=200
    ),
    ClusterMutant(
        "a snapshot holds uncommitted records", snapshot_the_uncommitted, caught_by=1, seeds=200
    ),
    ClusterMutant(
        "records are acknowledged before their sync",
        acknowledge_before_sync,
        caught_by=18,
        seeds=200,
    ),
    ClusterMutant("a fenced broker goes on leading", lead_while_fenced, caught_by=2, seeds=200),
    ClusterMutant(
        "a broker registers beside a running session", forget_sessions, caught_by=39, seeds=200
    ),
    ClusterMutant("rotten records are replayed", replay_rotten_records, caught_by=47, seeds=200),
)
