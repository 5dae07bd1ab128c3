"""Deliberate bugs of replication, each switched on by a patch of the node's own code."""

from collections.abc import Sequence
from typing import Any

import pytest
from cluster_mutants import ClusterMutant

from own_thread import patch_own_thread
from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.startup.startup import read_clean_marker
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.transactions.txn_markers import TransactionMarkers
from penstock.controller import alter_partition, broker_registration
from penstock.controller.image import BrokerImage
from penstock.log import log as log_module
from penstock.node import registration
from penstock.replication.follower import FollowerState, PartitionFollower
from penstock.replication.follower_progress import FollowerProgress
from penstock.replication.follower_steps import FollowerStep, TruncateTo
from penstock.replication.leader import PartitionLeader


def commit_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, PartitionLeader, "may_commit", lambda _leader: True)


def commit_over_a_shrinking_set(patch: pytest.MonkeyPatch) -> None:
    def proposed(leader: PartitionLeader) -> tuple[int, ...]:
        if leader.pending is None:
            return leader.isr
        return tuple(replica_id for replica_id, _epoch in leader.pending.isr)

    patch_own_thread(patch, PartitionLeader, "maximal_isr", property(proposed))


def commit_the_log_end_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    make = Replicas.make_partition

    def make_committed(replicas: Replicas, *given: Any, **named: Any) -> Partition:
        opened = given[3]
        return make(replicas, *given, **{**named, "high_watermark": opened.end_offset})

    patch_own_thread(patch, Replicas, "make_partition", make_committed)


def join_below_the_epoch_start(patch: pytest.MonkeyPatch) -> None:
    def has_reached_watermark(leader: PartitionLeader, follower: FollowerProgress) -> bool:
        return follower.end >= leader.high_watermark

    patch_own_thread(patch, PartitionLeader, "has_reached_epoch", has_reached_watermark)


def believe_fetches_of_old_broker_epochs(patch: pytest.MonkeyPatch) -> None:
    def active(broker: BrokerImage | None, _broker_epoch: int) -> str | None:
        return None if broker is not None and broker.active else "away"

    def may_be_in_sync(broker: Broker, node_id: int, _broker_epoch: int) -> bool:
        known = broker.image.brokers.get(node_id)
        return known is not None and known.active

    patch_own_thread(patch, alter_partition, "ineligibility", active)
    patch_own_thread(patch, Broker, "may_be_in_sync", may_be_in_sync)
    patch_own_thread(patch, PartitionLeader, "is_stale", lambda *_arguments: False)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def first_step(follower: PartitionFollower, high_watermark: int) -> FollowerStep | None:
        if follower.log.end_offset <= high_watermark:
            return None
        follower.state = FollowerState.BUSY
        return TruncateTo(high_watermark)

    patch_own_thread(patch, PartitionFollower, "first_step", first_step)


def take_answers_to_older_questions(patch: pytest.MonkeyPatch) -> None:
    def is_fetching(follower: PartitionFollower, _offset: int, _leader_epoch: int) -> bool:
        return follower.state is FollowerState.FETCHING

    patch_own_thread(patch, PartitionFollower, "is_present", is_fetching)


def stay_in_sync_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(
        patch, broker_registration, "changes_on_new_incarnation", lambda *_given, **_named: []
    )


def claim_a_clean_stop_of_one_directory(patch: pytest.MonkeyPatch) -> None:
    def first_epoch(directories: Sequence[LogDirectory]) -> int:
        return read_clean_marker(directories[0].disk)

    patch_own_thread(patch, registration, "_epoch_of_clean_stop", first_epoch)


def acknowledge_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    append_turn = Partition.append_turn

    def append_and_acknowledge(partition: Partition, now_ms: int, mono_ms: float) -> None:
        append_turn(partition, now_ms, mono_ms)
        while partition.awaiting:
            _needed, ticket, base_offset, append_time_ms, _deadline = partition.awaiting.popleft()
            ticket[0].succeeded(ticket, base_offset, append_time_ms)

    patch_own_thread(patch, Partition, "append_turn", append_and_acknowledge)


def believe_coordinators_that_moved(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, log_module, "check_marker", lambda *_arguments: None)
    patch_own_thread(patch, TransactionMarkers, "_in_charge", lambda markers: not markers._stopped)


REPLICA_MUTANTS = (
    ClusterMutant(
        "the high watermark moves below min.insync.replicas",
        commit_below_min_insync,
        caught_by=39,
        seeds=400,
    ),
    ClusterMutant(
        "the high watermark moves over a shrinking set",
        commit_over_a_shrinking_set,
        caught_by=13,
        seeds=400,
    ),
    ClusterMutant(
        "the high watermark of a restart is the log's end",
        commit_the_log_end_after_a_restart,
        caught_by=4,
        seeds=400,
    ),
    ClusterMutant(
        "a replica joins below the epoch's start",
        join_below_the_epoch_start,
        caught_by=1,
        seeds=400,
    ),
    ClusterMutant(
        "fetches of an old broker epoch are believed",
        believe_fetches_of_old_broker_epochs,
        caught_by=1,
        seeds=400,
    ),
    ClusterMutant(
        "a follower truncates to its high watermark",
        truncate_to_the_watermark,
        caught_by=4,
        seeds=400,
    ),
    ClusterMutant(
        "a follower takes answers to older questions",
        take_answers_to_older_questions,
        caught_by=1,
        seeds=400,
    ),
    ClusterMutant(
        "a replica stays in sync after a crash", stay_in_sync_after_a_crash, caught_by=1, seeds=400
    ),
    ClusterMutant(
        "one directory claims a clean stop for all",
        claim_a_clean_stop_of_one_directory,
        caught_by=1,
        seeds=400,
    ),
    ClusterMutant(
        "acks=all is answered before the followers have the record",
        acknowledge_before_the_followers,
        caught_by=1,
        seeds=400,
    ),
    ClusterMutant(
        "markers of a coordinator that moved are believed",
        believe_coordinators_that_moved,
        caught_by=1,
        seeds=400,
    ),
)
