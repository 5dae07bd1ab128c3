"""Deliberate bugs of replication, each switched on by a patch of the node's own code."""

from typing import Any

import pytest
from cluster_mutants import ClusterMutant

from own_thread import patch_own_thread
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.controller import broker_registration
from penstock.replication.follower import FollowerState, PartitionFollower
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


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def first_step(follower: PartitionFollower, high_watermark: int) -> FollowerStep | None:
        if follower.log.end_offset <= high_watermark:
            return None
        follower.state = FollowerState.BUSY
        return TruncateTo(high_watermark)

    patch_own_thread(patch, PartitionFollower, "first_step", first_step)


def stay_in_sync_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(
        patch, broker_registration, "changes_on_new_incarnation", lambda *_given, **_named: []
    )


def acknowledge_before_the_followers(patch: pytest.MonkeyPatch) -> None:
    append_turn = Partition.append_turn

    def append_and_acknowledge(partition: Partition, now_ms: int, mono_ms: float) -> None:
        append_turn(partition, now_ms, mono_ms)
        while partition.awaiting:
            _needed, ticket, base_offset, append_time_ms, _deadline = partition.awaiting.popleft()
            ticket[0].succeeded(ticket, base_offset, append_time_ms)

    patch_own_thread(patch, Partition, "append_turn", append_and_acknowledge)


REPLICA_MUTANTS = (
    ClusterMutant(
        "the high watermark moves below min.insync.replicas",
        commit_below_min_insync,
        caught_by=6,
        seeds=200,
    ),
    ClusterMutant(
        "the high watermark moves over a shrinking set",
        commit_over_a_shrinking_set,
        caught_by=3,
        seeds=200,
    ),
    ClusterMutant(
        "the high watermark of a restart is the log's end",
        commit_the_log_end_after_a_restart,
        caught_by=4,
        seeds=200,
    ),
    ClusterMutant(
        "a follower truncates to its high watermark",
        truncate_to_the_watermark,
        caught_by=1,
        seeds=200,
    ),
    ClusterMutant(
        "a replica stays in sync after a crash", stay_in_sync_after_a_crash, caught_by=3, seeds=200
    ),
    ClusterMutant(
        "acks=all is answered before the followers have the record",
        acknowledge_before_the_followers,
        caught_by=1,
        seeds=200,
    ),
)
