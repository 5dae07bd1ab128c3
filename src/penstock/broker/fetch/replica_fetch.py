"""Fetches of followers: the progress that their leader notes, and the rejected ones.

The state of a follower moves when its fetch arrives, not when a waiting fetch is answered. A fetch
that is rejected, or whose log diverges, moves nothing.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.errors import NotLeaderOrFollower, UnknownLeaderEpoch
from penstock.replication.isr_proposal import IsrProposal
from penstock.wire.messages.k01_fetch import FetchRequest

if TYPE_CHECKING:
    from penstock.broker.fetch.sessions import FetchSet, WatchedPartition
    from penstock.broker.partitions.partition import Partition

REPLICA_STATE_FROM = 15
NO_REPLICA = -1


class FetchingReplica(NamedTuple):
    """The broker that sends a fetch as a follower; its epoch is -1 before v15."""

    replica_id: int
    broker_epoch: int


class IsrChangesOfLeaders(Protocol):
    """Proposals of leaders on this node to the controller."""

    def propose(self, partition: "Partition", proposal: IsrProposal) -> None: ...


def replica_of(message: FetchRequest, version: int) -> FetchingReplica | None:
    """Return the follower that sends a fetch; None for a consumer."""
    if version >= REPLICA_STATE_FROM:
        state = message.replica_state
        found = FetchingReplica(state.replica_id, state.replica_epoch)
    else:
        found = FetchingReplica(message.replica_id, -1)
    return found if found.replica_id > NO_REPLICA else None


def check_replica(partition: "Partition", replica: FetchingReplica) -> None:
    """Raise for a broker without a replica of the partition, or of an earlier incarnation."""
    leader = partition.leader
    if replica.replica_id not in leader.followers:
        # The follower may know of its assignment before this leader does.
        raise UnknownLeaderEpoch(f"broker {replica.replica_id} is no follower of {partition} here")
    if leader.is_stale(*replica):
        raise NotLeaderOrFollower(
            f"broker {replica.replica_id} has registered again since its epoch"
            f" {replica.broker_epoch}"
        )


def note_arrival(
    partition: "Partition",
    replica: FetchingReplica,
    watched: "WatchedPartition",
    fetch_set: "FetchSet",
    now_ms: float,
) -> None:
    """Count the records that a follower has by its fetch: the high watermark may move."""
    leader, wanted, contact = partition.leader, watched.wanted, fetch_set.contact
    assert contact is not None, "a follower's fetch has arrived"
    moved = leader.fetched(*replica, wanted.fetch_offset, wanted.log_start_offset, now_ms, contact)
    if moved:
        partition.watermark_moved()
    partition.follower_fetched()
    if replica.replica_id not in leader.isr:
        fetch_set.outside[watched] = None


def let_join(
    fetch_set: "FetchSet", replica: FetchingReplica, now_ms: float, changes: IsrChangesOfLeaders
) -> None:
    """Propose the in-sync sets that the follower may join. Each fetch looks again: the broker may
    have been fenced, or another change pending, when the partition was named last. A fetch counts
    for all partitions of its session, so its broker epoch does, too."""
    contact = fetch_set.contact
    assert contact is not None, "a follower's fetch has arrived"
    for watched in list(fetch_set.outside):
        partition = watched.partition
        if partition is None or fetch_set.replica_id in partition.leader.isr:
            del fetch_set.outside[watched]
        elif partition.leading:
            partition.leader.note_epoch(*replica, contact)
            proposal = partition.leader.joining(fetch_set.replica_id, now_ms)
            if proposal is not None:
                changes.propose(partition, proposal)
