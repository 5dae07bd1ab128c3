"""Deliberate bugs of replication, each switched on by a patch of the code of a node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from own_thread import patch_own_thread
from penstock.broker.fetch.sessions import WatchedPartition
from penstock.controller import alter_partition, leadership_changes
from penstock.controller.image import BrokerImage
from penstock.replication import watermarks
from penstock.replication.follower import FollowerState, PartitionFollower
from penstock.replication.follower_progress import FetchContact, FollowerProgress
from penstock.replication.follower_steps import FollowerStep, TruncateTo
from penstock.replication.leader import PartitionLeader
from penstock.wire.records.metadata import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class ReplicationMutant:
    """A bug, and the number of seeds within which a sweep has to meet it."""

    name: str
    switch_on: Callable[[pytest.MonkeyPatch], None]
    seeds: int


def commit_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, PartitionLeader, "may_commit", lambda _leader: True)


def commit_over_a_shrinking_set(patch: pytest.MonkeyPatch) -> None:
    def maximal_isr(leader: PartitionLeader) -> tuple[int, ...]:
        pending = leader.pending
        return leader.isr if pending is None else tuple(each for each, _ in pending.isr)

    patch_own_thread(patch, PartitionLeader, "maximal_isr", property(maximal_isr))


def start_from_the_log_end(patch: pytest.MonkeyPatch) -> None:
    def restart_watermark(_checkpoint: int, _start_offset: int, end_offset: int) -> int:
        return end_offset

    patch_own_thread(patch, watermarks, "restart_watermark", restart_watermark)


def join_below_the_epoch_start(patch: pytest.MonkeyPatch) -> None:
    def has_reached_epoch(leader: PartitionLeader, follower: FollowerProgress) -> bool:
        return follower.end >= leader.high_watermark

    patch_own_thread(patch, PartitionLeader, "has_reached_epoch", has_reached_epoch)


def believe_old_broker_epochs(patch: pytest.MonkeyPatch) -> None:
    ineligibility = alter_partition.ineligibility

    def of_any_epoch(broker: BrokerImage | None, _broker_epoch: int) -> str | None:
        return ineligibility(broker, alter_partition.ANY_EPOCH)

    def may_be_in_sync(leader: PartitionLeader, follower: FollowerProgress) -> bool:
        return leader._is_eligible(follower.replica_id, alter_partition.ANY_EPOCH)

    patch_own_thread(patch, alter_partition, "ineligibility", of_any_epoch)
    patch_own_thread(patch, PartitionLeader, "is_stale", lambda *_: False)
    patch_own_thread(patch, PartitionLeader, "_may_be_in_sync", may_be_in_sync)


def truncate_to_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def first_step(follower: PartitionFollower, high_watermark: int) -> FollowerStep | None:
        if follower.log.end_offset <= high_watermark:
            return None
        follower.state = FollowerState.BUSY
        return TruncateTo(high_watermark)

    patch_own_thread(patch, PartitionFollower, "first_step", first_step)


def append_answers_to_older_questions(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, PartitionFollower, "is_present", lambda *_: True)


def keep_in_sync_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    def no_changes(*_: Any, **__: Any) -> list[PartitionChangeRecord]:
        return []

    patch_own_thread(patch, leadership_changes, "changes_on_new_incarnation", no_changes)


def lead_on_after_losing_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def follow(
        _leader: PartitionLeader, _epoch: int, _partition_epoch: int, _replicas: tuple[int, ...]
    ) -> None:
        """Keep the leadership."""

    patch_own_thread(patch, PartitionLeader, "follow", follow)


def forget_displaced_sessions(patch: pytest.MonkeyPatch) -> None:
    arrive = FetchContact.arrive

    def arrive_only(contact: FetchContact, now_ms: float) -> bool:
        arrive(contact, now_ms)
        return False

    patch_own_thread(patch, FetchContact, "arrive", arrive_only)


def forget_idle_partitions(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, WatchedPartition, "isr_changed", lambda _watched: None)


MUTANTS = (
    ReplicationMutant(
        "the high watermark moves below min.insync.replicas", commit_below_min_insync, 50
    ),
    ReplicationMutant(
        "the high watermark moves over a shrinking set", commit_over_a_shrinking_set, 50
    ),
    ReplicationMutant(
        "after a restart the high watermark is the log end", start_from_the_log_end, 50
    ),
    ReplicationMutant(
        "a replica joins below the start of the epoch", join_below_the_epoch_start, 50
    ),
    ReplicationMutant("an old broker epoch is believed", believe_old_broker_epochs, 1000),
    ReplicationMutant("a follower truncates to its high watermark", truncate_to_the_watermark, 50),
    ReplicationMutant(
        "an answer to an older question is appended", append_answers_to_older_questions, 150
    ),
    ReplicationMutant("a crashed replica stays in sync", keep_in_sync_after_a_crash, 150),
    ReplicationMutant("a leader leads on without its epoch", lead_on_after_losing_the_epoch, 50),
    ReplicationMutant(
        "a session looks at no partition that another one fetched", forget_displaced_sessions, 1000
    ),
    ReplicationMutant(
        "a replica of an idle partition is not asked to join again", forget_idle_partitions, 150
    ),
)
