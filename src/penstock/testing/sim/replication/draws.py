"""Settings of one simulated replication, drawn from its seed. Times are in virtual milliseconds."""

import random
from dataclasses import dataclass
from enum import Enum


class DeathMix(Enum):
    """The deaths that a seed holds, within what is promised.

    KILLS: any number of killed processes under `page-cache`. POWER: power cuts as well, fewer
    deaths than min.insync.replicas before all sets are whole again. FSYNC: any number of both with
    `log.durability=fsync`.
    """

    KILLS = "kills"
    POWER = "power"
    FSYNC = "fsync"


@dataclass(frozen=True, slots=True)
class ReplicationDraw:
    """Some nodes, their partitions and their surroundings."""

    nodes: int
    partitions: int
    min_insync: int
    deaths: DeathMix
    eligible_leaders: bool
    lag_ms: int
    session_ms: float
    heartbeat_ms: float
    backoff_ms: float
    request_timeout_ms: float
    fetch_wait_ms: int
    partition_bytes_max: int
    fetch_sessions: int
    network_ms: float
    sync_ms: float
    flush_gap_ms: float
    produce_gap_ms: float
    burst_ms: float  # of producers, and of the idle time between two bursts
    delete_gap_ms: float
    fault_gap_ms: float
    moment_fault_chance: float  # of a fault right after an election
    loss_chance: float
    faults_end_ms: float

    @property
    def settle_ms(self) -> float:
        """Return how long all sets may take to be whole after the last fault has healed."""
        return 20.0 * (self.session_ms + self.lag_ms + self.request_timeout_ms)


def draw_replication(chance: random.Random) -> ReplicationDraw:
    """Return the settings of a seed."""
    nodes = chance.choice((3, 3, 3, 5))
    min_insync = chance.choice((1, 2, 2))
    deaths = chance.choice((DeathMix.KILLS, DeathMix.FSYNC))
    if min_insync > 1 and chance.random() < 0.5:
        deaths = DeathMix.POWER
    session_ms = chance.uniform(40.0, 90.0)
    return ReplicationDraw(
        nodes=nodes,
        partitions=chance.choice((1, 2, 2)),
        min_insync=min_insync,
        deaths=deaths,
        # Without eligible leaders one power cut may lose records: no promise holds then.
        eligible_leaders=deaths is DeathMix.POWER or chance.random() < 0.8,
        lag_ms=chance.randint(25, 80),
        session_ms=session_ms,
        heartbeat_ms=session_ms / 4,
        backoff_ms=chance.uniform(4.0, 15.0),
        request_timeout_ms=chance.uniform(35.0, 80.0),
        fetch_wait_ms=chance.randint(10, 30),
        partition_bytes_max=chance.choice((100, 400, 10_000)),
        fetch_sessions=chance.choice((0, 3, 8, 8, 8)),
        network_ms=chance.choice((0.3, 1.0, 3.0)),
        sync_ms=chance.choice((0.3, 1.0, 3.0)),
        flush_gap_ms=chance.uniform(30.0, 150.0),
        produce_gap_ms=chance.uniform(6.0, 30.0),
        burst_ms=chance.choice((60.0, 150.0, 1000.0)),
        delete_gap_ms=chance.uniform(40.0, 200.0),
        fault_gap_ms=chance.uniform(25.0, 80.0),
        moment_fault_chance=chance.choice((0.03, 0.1, 0.4)),
        loss_chance=chance.choice((0.0, 0.0, 0.01, 0.04)),
        faults_end_ms=float(chance.randint(400, 800)),
    )
