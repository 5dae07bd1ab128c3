"""Deliberate bugs of replication, each switched on by a patch of the node's own code."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cluster_mutants import ClusterMutant

from own_thread import patch_own_thread
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.partitions.verified_producers import VerifiedProducers
from penstock.broker.startup.startup import read_clean_marker
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.transactions.take_overs import TakeOvers
from penstock.broker.transactions.txn_markers import TransactionMarkers
from penstock.controller import broker_registration
from penstock.log import log as log_module
from penstock.log.producers import check_marker
from penstock.node import registration
from penstock.node.registration import NodeRegistration
from penstock.replication.follower import FollowerState, PartitionFollower
from penstock.replication.follower_steps import FollowerStep, TruncateTo
from penstock.replication.leader import PartitionLeader

ANY_COORDINATOR = 1 << 30


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


def claim_a_clean_stop_of_one_directory(patch: pytest.MonkeyPatch) -> None:
    def first_epoch(directories: Sequence[LogDirectory]) -> int:
        return read_clean_marker(directories[0].disk)

    patch_own_thread(patch, registration, "_epoch_of_clean_stop", first_epoch)


def claim_a_clean_stop_with_lost_replicas(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, NodeRegistration, "withdraw_clean_stop", lambda _requests: False)


def believe_coordinators_that_moved(patch: pytest.MonkeyPatch) -> None:
    def check_without_coordinator(
        state: Any, producer_epoch: int, _coordinator_epoch: int, transactions_v2: bool
    ) -> None:
        check_marker(state, producer_epoch, ANY_COORDINATOR, transactions_v2)

    patch_own_thread(patch, log_module, "check_marker", check_without_coordinator)
    patch_own_thread(patch, TransactionMarkers, "_in_charge", lambda markers: not markers._stopped)


def answer_take_overs_at_once(patch: pytest.MonkeyPatch) -> None:
    def when_over(_take_overs: TakeOvers, _producer_id: int, done: Callable[[None], None]) -> None:
        done(None)

    patch_own_thread(patch, TakeOvers, "when_over", when_over)


def vouch_for_former_owners(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, VerifiedProducers, "revoke", lambda *_arguments: None)


REPLICA_MUTANTS = (
    ClusterMutant(
        "the high watermark moves below min.insync.replicas",
        commit_below_min_insync,
        caught_by=14,
        seeds=200,
    ),
    ClusterMutant(
        "the high watermark moves over a shrinking set",
        commit_over_a_shrinking_set,
        caught_by=6,
        seeds=200,
    ),
    ClusterMutant(
        "the high watermark of a restart is the log's end",
        commit_the_log_end_after_a_restart,
        caught_by=2,
        seeds=200,
    ),
    ClusterMutant(
        "a follower truncates to its high watermark",
        truncate_to_the_watermark,
        caught_by=2,
        seeds=200,
    ),
    ClusterMutant(
        "a replica stays in sync after a crash", stay_in_sync_after_a_crash, caught_by=13, seeds=200
    ),
    ClusterMutant(
        "acks=all is answered before the followers have the record",
        acknowledge_before_the_followers,
        caught_by=1,
        seeds=200,
    ),
    ClusterMutant(
        "one directory claims a clean stop for all",
        claim_a_clean_stop_of_one_directory,
        caught_by=366,
        seeds=400,
    ),
    ClusterMutant(
        "a clean stop is claimed with a lost replica",
        claim_a_clean_stop_with_lost_replicas,
        caught_by=6,
        seeds=400,
    ),
    ClusterMutant(
        "markers of a coordinator that moved are believed",
        believe_coordinators_that_moved,
        caught_by=110,
        seeds=200,
    ),
    ClusterMutant(
        "a take-over waits for no leader", answer_take_overs_at_once, caught_by=161, seeds=200
    ),
    ClusterMutant(
        "a former owner of a transaction still writes",
        vouch_for_former_owners,
        caught_by=30,
        seeds=200,
    ),
)
