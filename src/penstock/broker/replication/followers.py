"""The followers of this node: one fetcher and one connection for each leader.

The machines in replication/ decide; here their steps change logs, and their requests use links. A
fetch that follows an append leaves when the appended records count: at once under `page-cache`,
after the sync round under `fsync`. So an offset that a leader is asked for always means "stored
here".
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.links.links import LinkPurpose
from penstock.broker.partitions.partition import Partition
from penstock.broker.replication.log_truncation import LogTruncation
from penstock.controller.image import NO_LEADER, PartitionImage
from penstock.errors import CorruptMessage, KafkaError, from_code
from penstock.log.holes import Hole, UnrecordedHoles, record_holes
from penstock.replication.fetcher import FetcherSettings, ReplicaFetcher
from penstock.replication.follower import FollowerState, PartitionFollower
from penstock.replication.follower_steps import (
    Append,
    AskEnd,
    AskStart,
    FailReplica,
    FollowerStep,
    NewLeaderNeeded,
    StartAt,
    TruncateTo,
    WaitUntil,
)
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages.k01_fetch import FetchResponse
from penstock.world import DiskFailed, DiskFull, Timer

if TYPE_CHECKING:
    from penstock.broker.replication.broker_view import ReplicationBroker

log = logging.getLogger("penstock.replication")

LATEST, EARLIEST = -1, -2
SYNC_WAIT_MS = 50  # a partition whose sync takes longer is left out of the next fetch


class FollowedReplica:
    """A partition of this node that follows a leader elsewhere (partition.SyncedReplica)."""

    __slots__ = ("_followers", "fetches", "machine", "partition", "syncing_to", "truncation")

    def __init__(
        self, followers: "Followers", partition: Partition, machine: PartitionFollower
    ) -> None:
        self._followers = followers
        self.partition = partition
        self.machine = machine
        self.fetches: LeaderFetches | None = None
        self.syncing_to = -1  # records below it are appended, and not synced so far
        self.truncation = False

    @property
    def lag(self) -> int:
        return self.machine.lag

    @property
    def has_failed(self) -> bool:
        return self.machine.state is FollowerState.FAILED

    def synced(self) -> None:
        """Go on when the appended records are synced."""
        if 0 <= self.syncing_to <= self.partition.log.synced_offset:
            self.syncing_to = -1
            self._followers.finished(self)


class LeaderFetches:
    """The fetches from one leader, one request at a time."""

    def __init__(self, followers: "Followers", leader_id: int, fetcher: ReplicaFetcher) -> None:
        self._followers = followers
        self.leader_id = leader_id
        self.fetcher = fetcher
        self.replicas: dict[tuple[bytes, int], FollowedReplica] = {}
        self.syncing: dict[FollowedReplica, None] = {}  # the next fetch waits for their syncs
        self._timer: Timer | None = None
        self._timer_ms = 0.0
        self._failing = False
        self._over = False

    def add(self, replica: FollowedReplica) -> None:
        machine = replica.machine
        replica.fetches = self
        self.replicas[machine.topic_id, machine.partition] = replica
        self.fetcher.add(machine)
        self.look_soon()

    def remove(self, replica: FollowedReplica) -> None:
        machine = replica.machine
        replica.fetches = None
        self.replicas.pop((machine.topic_id, machine.partition), None)
        self.syncing.pop(replica, None)
        self.fetcher.remove(machine.topic_id, machine.partition)
        self.look_soon()

    def look_soon(self) -> None:
        """Send what is due on a later turn, with everything that changes until then."""
        self.look_at(0.0)

    def look_at(self, at_ms: float) -> None:
        if (self._timer is not None and self._timer_ms <= at_ms) or self._over:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = at_ms
        now_ms = self._followers.now_ms()
        self._timer = self._followers.world.timers.at(max(at_ms, now_ms), self._look)

    def wait_for_sync(self, replica: FollowedReplica) -> None:
        """Let the next fetch wait for the sync of a partition, for a moment."""
        self.syncing[replica] = None
        self.look_at(self._followers.now_ms() + SYNC_WAIT_MS)

    def _look(self) -> None:
        """Send the next fetch, unless partitions are about to be synced."""
        self._timer = None
        now_ms = self._followers.now_ms()
        if self._over or self.fetcher.in_flight:
            return
        self.syncing.clear()  # those that are still here are late
        self.fetcher.registered(self._followers.broker_epoch)
        request = self.fetcher.next_request(now_ms)
        if request is None:
            self._wait(now_ms)
            return
        self._followers.send(self.leader_id, request, FetchResponse, self._answered)
        self._wait(now_ms)

    def _wait(self, now_ms: float) -> None:
        at_ms = self.fetcher.next_look_ms()
        if self.fetcher.resume_ms > now_ms:
            at_ms = self.fetcher.resume_ms
        if at_ms is not None:
            self.look_at(at_ms)

    def _answered(self, result: FetchResponse | Exception) -> None:
        if self._over:
            return
        now_ms = self._followers.now_ms()
        if isinstance(result, Exception):
            self._note_failure(result)
            self.fetcher.failed(now_ms)
            self.look_at(self.fetcher.resume_ms)
            return
        self._failing = False
        for machine, step in self.fetcher.answered(result, now_ms):
            replica = self.replicas.get((machine.topic_id, machine.partition))
            if replica is not None and replica.machine is machine:
                self._followers.perform(replica, step)
        if not self.syncing:
            self.look_soon()

    def _note_failure(self, failure: Exception) -> None:
        """Log a leader that fails once, and again after an answer."""
        level = logging.DEBUG if self._failing else logging.WARNING
        self._failing = True
        log.log(
            level,
            "cannot fetch from node %d, which leads %d of this node's partitions: %s; fetches go on"
            " until it answers",
            self.leader_id,
            len(self.replicas),
            failure,
        )

    def close(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Followers:
    """All partitions that this node follows (partitions.PartitionFollowers)."""

    def __init__(self, broker: "ReplicationBroker") -> None:
        self._broker = broker
        self.world = broker.world
        self._fetches: dict[int, LeaderFetches] = {}
        self._replicas: dict[Partition, FollowedReplica] = {}
        self._stopped = False

    @property
    def broker_epoch(self) -> int:
        return self._broker.broker_epoch

    def now_ms(self) -> float:
        return self.world.clock.mono_ms()

    # -- roles

    def follow(self, partition: Partition, state: PartitionImage) -> None:
        """Fetch from the leader of the image; from none while there is no leader."""
        replica = self._replicas.get(partition)
        # With its own id there leads another process, which has taken the id.
        leader_id = NO_LEADER if state.leader == self._broker.node_id else state.leader
        if replica is None:
            if leader_id == NO_LEADER or partition.is_offline:
                return
            replica = self._begin(partition, state)
        replica.machine.follow(leader_id, state.leader_epoch)
        fetches = self._fetches.get(leader_id)
        if replica.fetches is not None and replica.fetches is not fetches:
            self._leave(replica)
        if leader_id == NO_LEADER:
            return
        if replica.fetches is None:
            self._join(replica, leader_id)
        else:
            replica.fetches.fetcher.changed(replica.machine)
            replica.fetches.look_soon()

    def _begin(self, partition: Partition, state: PartitionImage) -> FollowedReplica:
        machine = PartitionFollower(
            partition.topic_id,
            partition.index,
            partition.log,
            state.leader,
            state.leader_epoch,
            backoff_ms=self._broker.settings.replica_backoff_ms,
        )
        replica = self._replicas[partition] = FollowedReplica(self, partition, machine)
        partition.following = replica
        first = machine.first_step(partition.leader.high_watermark)
        if first is not None:
            self.perform(replica, first)
        elif partition.directory.waits_for_sync and partition.unsynced:
            # An earlier life of this node may have written them; they count once they are synced.
            machine.begin_work()
            self._wait_for_sync(replica)
        return replica

    def _join(self, replica: FollowedReplica, leader_id: int) -> None:
        if self._stopped:
            return
        fetches = self._fetches.get(leader_id)
        if fetches is None:
            settings = self._broker.settings
            fetcher = ReplicaFetcher(
                leader_id,
                FetcherSettings(
                    self._broker.node_id,
                    wait_ms_max=settings.replica_fetch_wait_ms,
                    bytes_min=settings.replica_fetch_bytes_min,
                    response_bytes_max=settings.replica_response_bytes_max,
                    partition_bytes_max=settings.replica_fetch_bytes_max,
                    backoff_ms=settings.replica_backoff_ms,
                ),
                self.broker_epoch,
            )
            fetches = self._fetches[leader_id] = LeaderFetches(self, leader_id, fetcher)
        fetches.add(replica)

    def _leave(self, replica: FollowedReplica) -> None:
        fetches = replica.fetches
        if fetches is None:
            return
        fetches.remove(replica)
        if not fetches.replicas:
            # An answer of a node that is gone may never come.
            fetches.close()
            del self._fetches[fetches.leader_id]
            self._broker.links.close(fetches.leader_id, LinkPurpose.FETCH)

    def end(self, partition: Partition) -> bool:
        """Fetch no more. Return whether the log may be appended to: after a truncation that runs,
        the partition takes its role again."""
        replica = self._replicas.get(partition)
        if replica is None:
            return not partition.log.truncating
        self._leave(replica)
        if replica.truncation:
            return False
        del self._replicas[partition]
        partition.following = None
        return True

    def forget(self, partition: Partition) -> None:
        """Fetch no more: the partition leaves this node, or its files are damaged."""
        replica = self._replicas.pop(partition, None)
        if replica is not None:
            self._leave(replica)
            partition.following = None

    def stop(self) -> None:
        """Fetch nothing more, from leaders to come either: the node stops, and closes its logs."""
        self._stopped = True
        for fetches in self._fetches.values():
            fetches.close()

    # -- steps

    def perform(self, replica: FollowedReplica, step: FollowerStep) -> None:
        """Do what the machine of a follower has decided."""
        match step:
            case Append():
                self._append(replica, step)
            case TruncateTo():
                self._truncate(replica, step.offset, partial(self.finished, replica))
            case StartAt():
                done = partial(self.finished, replica)
                self._truncate(replica, step.offset, done, restart=True)
            case AskEnd():
                self._ask(replica, LATEST, step.leader_epoch)
            case AskStart():
                self._ask(replica, EARLIEST, step.leader_epoch)
            case WaitUntil():
                log.debug("%s waits before its next fetch: %s", replica.partition, step.reason)
            case FailReplica():
                log.error("%s follows no more in this epoch: %s", replica.partition, step.reason)
            case NewLeaderNeeded():
                log.debug("%s waits for its next leader", replica.partition)

    def _append(self, replica: FollowedReplica, step: Append) -> None:
        if step.restart_at is None:
            self._store(replica, step)
        else:
            epoch = replica.machine.leader_epoch
            again = partial(self._store_again, replica, step, epoch)
            self._truncate(replica, step.restart_at, again, restart=True)

    def _store_again(self, replica: FollowedReplica, step: Append, leader_epoch: int) -> None:
        """Append records that waited for a change of the log, unless a later leader may have
        others."""
        if replica.machine.leader_epoch == leader_epoch:
            self._store(replica, step)
        else:
            self.finished(replica)

    def _store(self, replica: FollowedReplica, step: Append) -> None:
        """Append records, then take over the offsets of the leader."""
        partition = replica.partition
        if partition.gone or self._replicas.get(partition) is not replica:
            return
        if len(step.records):
            if partition.held:
                self._hold_off(replica, "the partition is just moving to another directory")
                return
            try:
                partition.append_fetched(step.records, self.world.clock.wall_ms())
            except UnrecordedHoles as error:
                self._record_holes(replica, step, error.holes)
                return
            except CorruptMessage as error:
                self._failed(replica, error)
                return
            except DiskFailed as failure:
                self._hold_off(replica, str(failure))
                return
        partition.follow_offsets(step.high_watermark, step.log_start)
        if not len(step.records):
            return
        if partition.directory.waits_for_sync:
            self._wait_for_sync(replica)
        else:
            self.finished(replica)

    def _record_holes(
        self, replica: FollowedReplica, step: Append, holes: tuple[Hole, ...]
    ) -> None:
        """Append records when the holes before them are on record."""
        partition, leader_epoch = replica.partition, replica.machine.leader_epoch

        def recorded(failure: DiskFailed | None) -> None:
            if failure is None:
                self._store_again(replica, step, leader_epoch)
                return
            if isinstance(failure, DiskFull):
                partition.directory.filled_up(failure)
            self._hold_off(replica, str(failure))

        record_holes(partition.log, holes, recorded)

    def _failed(self, replica: FollowedReplica, error: KafkaError) -> None:
        log.warning("%s cannot append what its leader sent: %s", replica.partition, error)
        next_step = replica.machine.append_failed(error, self.now_ms())
        self.perform(replica, next_step)
        self._changed(replica)

    def _hold_off(self, replica: FollowedReplica, reason: str) -> None:
        """Fetch the same records again, after a pause."""
        self.perform(replica, replica.machine.wait(self.now_ms(), reason))
        self._changed(replica)

    def _wait_for_sync(self, replica: FollowedReplica) -> None:
        partition = replica.partition
        replica.syncing_to = partition.log.end_offset
        # After a truncation, or in an earlier role, no round may be due for what is unsynced.
        partition.directory.wrote(partition)
        partition.directory.wrote_its_own()
        if replica.fetches is not None:
            replica.fetches.wait_for_sync(replica)
        replica.synced()  # a round may have ended by now

    def _truncate(
        self,
        replica: FollowedReplica,
        offset: int,
        then: Callable[[], None],
        *,
        restart: bool = False,
    ) -> None:
        replica.truncation = True
        replica.syncing_to = -1

        def done() -> None:
            replica.truncation = False
            partition = replica.partition
            if self._replicas.get(partition) is not replica:
                return
            if replica.fetches is None:
                # The partition has lost its leader meanwhile, or leads itself.
                replica.machine.finished()
                self._broker.replicas.take_role(partition)
                self._broker.touch()
            else:
                then()

        LogTruncation(self._broker, replica.partition, offset, done, restart=restart).begin()

    def finished(self, replica: FollowedReplica) -> None:
        """Go on with a follower whose last step counts."""
        replica.machine.finished()
        self._changed(replica)

    def _changed(self, replica: FollowedReplica) -> None:
        fetches = replica.fetches
        if fetches is None:
            return
        fetches.fetcher.changed(replica.machine)
        fetches.syncing.pop(replica, None)
        if not fetches.syncing:
            fetches.look_soon()

    # -- questions

    def _ask(self, replica: FollowedReplica, timestamp: int, leader_epoch: int) -> None:
        """Ask the leader for the end or the start of its log."""
        partition = replica.partition
        wanted = k02.ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=leader_epoch,
            timestamp=timestamp,
        )
        topic = k02.ListOffsetsTopic(name=partition.topic, partitions=[wanted])
        request = k02.ListOffsetsRequest(replica_id=self._broker.node_id, topics=[topic])
        self._broker.links.send(
            replica.machine.leader_id,
            request,
            k02.ListOffsetsResponse,
            LinkPurpose.OFFSETS,
            self._broker.settings.replica_socket_timeout_ms,
            partial(self._offset_known, replica, timestamp, leader_epoch),
        )

    def _offset_known(
        self,
        replica: FollowedReplica,
        timestamp: int,
        leader_epoch: int,
        result: k02.ListOffsetsResponse | Exception,
    ) -> None:
        if self._replicas.get(replica.partition) is not replica:
            return
        machine = replica.machine
        step: FollowerStep | None
        failure = _failure_of(result)
        if failure is not None or isinstance(result, Exception):
            error = failure or KafkaError(str(result))
            step = machine.question_failed(leader_epoch, error, self.now_ms())
        else:
            offset = result.topics[0].partitions[0].offset
            known = machine.end_known if timestamp == LATEST else machine.start_known
            step = known(leader_epoch, offset)
        if step is not None:
            self.perform(replica, step)
        self._changed(replica)

    def send(
        self,
        leader_id: int,
        message: object,
        expect: type[FetchResponse],
        answered: Callable[[FetchResponse | Exception], None],
    ) -> None:
        """Send a fetch to a leader."""
        timeout_ms = self._broker.settings.replica_socket_timeout_ms
        self._broker.links.send(leader_id, message, expect, LinkPurpose.FETCH, timeout_ms, answered)


def _failure_of(result: k02.ListOffsetsResponse | Exception) -> KafkaError | None:
    """Return the error of an answer about one partition."""
    if isinstance(result, KafkaError):
        return result
    if isinstance(result, Exception):
        return None
    if not result.topics or not result.topics[0].partitions:
        return KafkaError("the leader left the partition out of its answer")
    code = result.topics[0].partitions[0].error_code
    return from_code(code) if code else None
