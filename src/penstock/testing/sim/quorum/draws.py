"""Settings of one simulated quorum, drawn from its seed. Times are in virtual milliseconds.

Timeouts are small, so that one virtual second holds several elections and faults.
"""

import random
from dataclasses import dataclass, replace
from typing import Final

from penstock.raft.replica import ReplicaSettings
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters

CLUSTER_ID: Final = "simulated-cluster"
SEEDS_PER_ENCODED_ONE: Final = 16


@dataclass(frozen=True, slots=True)
class QuorumDraw:
    """A quorum and its surroundings."""

    voters: Voters
    observer_ids: tuple[int, ...]
    kraft_version: int
    replica: ReplicaSettings
    faults_end_ms: float
    fault_gap_ms: float
    moment_fault_chance: float  # of a fault right after a vote or an election
    proposal_gap_ms: float
    snapshot_gap_ms: float
    snapshot_bytes: int
    network_ms: float
    sync_ms: float
    loss_chance: float
    is_encoded: bool  # messages pass through the codec

    @property
    def observer(self) -> ReplicaSettings:
        """Return the settings of an observer, which knows the addresses of the voters only."""
        ids = tuple(voter.node_id for voter in self.voters)
        return replace(self.replica, bootstrap_ids=ids, may_become_voter=False)

    @property
    def settle_ms(self) -> float:
        """Return how long the quorum may take to agree after the last fault has healed."""
        slowest_ms = self.replica.election_timeout_ms + self.replica.fetch_timeout_ms
        return 40.0 * slowest_ms


def directory_of(node_id: int) -> bytes:
    return b"directory-%06d" % node_id


def voter_of(node_id: int, *, with_directory: bool) -> QuorumVoter:
    endpoint = VoterEndpoint("CONTROLLER", f"node-{node_id}", 9093)
    return QuorumVoter(node_id, directory_of(node_id) if with_directory else bytes(16), (endpoint,))


def draw_quorum(seed: int, chance: random.Random) -> QuorumDraw:
    """Return the settings of a seed."""
    count = chance.choice((3, 3, 3, 4, 5))
    kraft_version = chance.choice((0, 1))
    voters = tuple(
        voter_of(node_id, with_directory=kraft_version > 0) for node_id in range(1, count + 1)
    )
    fetch_timeout_ms = chance.randint(50, 120)
    return QuorumDraw(
        voters=voters,
        observer_ids=(count + 1,),
        kraft_version=kraft_version,
        replica=ReplicaSettings(
            cluster_id=CLUSTER_ID,
            election_timeout_ms=chance.randint(30, 80),
            fetch_timeout_ms=fetch_timeout_ms,
            election_backoff_ms_max=chance.randint(10, 60),
            request_timeout_ms=chance.randint(30, 100),
            retry_backoff_ms=chance.randint(3, 8),
            fetch_wait_ms_max=chance.randint(20, fetch_timeout_ms // 2),
            fetch_bytes_max=chance.choice((200, 400, 10_000)),
            fetch_snapshot_bytes_max=chance.choice((60, 150, 1000)),
        ),
        faults_end_ms=float(chance.randint(500, 1000)),
        fault_gap_ms=float(chance.randint(40, 120)),
        moment_fault_chance=chance.choice((0.03, 0.06, 0.4)),
        proposal_gap_ms=chance.uniform(15.0, 60.0),
        snapshot_gap_ms=chance.choice((60.0, 120.0, 300.0)),
        snapshot_bytes=chance.randint(50, 600),
        network_ms=chance.choice((0.3, 1.0, 3.0)),
        sync_ms=chance.choice((0.2, 1.0, 5.0)),
        loss_chance=chance.choice((0.0, 0.0, 0.02, 0.1)),
        is_encoded=seed % SEEDS_PER_ENCODED_ONE == 0,
    )
