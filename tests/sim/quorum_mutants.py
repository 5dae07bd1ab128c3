"""Deliberate bugs of the quorum, each switched on by a patch of the machine's own code."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from own_thread import patch_own_thread
from penstock.raft import election, leadership
from penstock.raft.log_view import EpochEnd
from penstock.raft.machine import QuorumMachine
from penstock.raft.quorum_effects import QuorumEffect
from penstock.raft.quorum_state import NO_NODE, QuorumState
from penstock.raft.replica import RaftReplica
from penstock.raft.snapshot import MetadataSnapshotId


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, and the number of seeds within which a sweep has to meet it."""

    name: str
    switch_on: Callable[[pytest.MonkeyPatch], None]
    seeds: int


def count_before_own_sync(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(
        patch, leadership, "own_counted_offset", lambda replica: replica.log.end_offset
    )


def fetch_before_sync(patch: pytest.MonkeyPatch) -> None:
    patch_own_thread(patch, RaftReplica, "is_synced", property(lambda _replica: True))


def _start_from(
    patch: pytest.MonkeyPatch, change: Callable[[QuorumState, RaftReplica], QuorumState]
) -> None:
    start = QuorumMachine.start

    def start_from(
        machine: QuorumMachine, stored: QuorumState | None, now_ms: float
    ) -> list[QuorumEffect]:
        return start(machine, change(stored, machine.replica) if stored else None, now_ms)

    patch_own_thread(patch, QuorumMachine, "start", start_from)


def forget_votes(patch: pytest.MonkeyPatch) -> None:
    def change(stored: QuorumState, _replica: RaftReplica) -> QuorumState:
        return QuorumState(stored.leader_epoch) if stored.leader_id == NO_NODE else stored

    _start_from(patch, change)


def forget_leadership(patch: pytest.MonkeyPatch) -> None:
    def change(stored: QuorumState, replica: RaftReplica) -> QuorumState:
        if stored.leader_id != replica.me.node_id:
            return stored
        return QuorumState(stored.leader_epoch, NO_NODE, *replica.key)

    _start_from(patch, change)


def vote_for_any_log(patch: pytest.MonkeyPatch) -> None:
    def is_up_to_date(_replica: RaftReplica, _end: EpochEnd) -> bool:
        return True

    patch_own_thread(patch, election, "is_up_to_date", is_up_to_date)


def commit_older_epochs_by_counting(patch: pytest.MonkeyPatch) -> None:
    def may_commit(_start: EpochEnd, offset: int) -> bool:
        return offset >= 0

    patch_own_thread(patch, leadership, "may_commit", may_commit)


def snapshot_the_uncommitted(patch: pytest.MonkeyPatch) -> None:
    def next_snapshot_id(machine: QuorumMachine) -> MetadataSnapshotId | None:
        log = machine.replica.log
        latest = log.latest_snapshot
        newest = latest.end_offset if latest is not None else log.start_offset
        if machine.replica.installing is not None or log.end_offset <= newest:
            return None
        return MetadataSnapshotId(log.end_offset, log.last_epoch)

    patch_own_thread(patch, QuorumMachine, "next_snapshot_id", next_snapshot_id)


MUTANTS = (
    Mutant("the leader counts its records before their sync", count_before_own_sync, 50),
    Mutant("voters fetch before they sync", fetch_before_sync, 50),
    Mutant("a vote is forgotten on restart", forget_votes, 400),
    Mutant("a leadership is forgotten on restart", forget_leadership, 3000),
    Mutant("a vote is granted without a look at the log", vote_for_any_log, 50),
    Mutant("older epochs are committed by counting", commit_older_epochs_by_counting, 50),
    Mutant("a snapshot holds uncommitted records", snapshot_the_uncommitted, 50),
)
