"""Settings of one simulated cluster, drawn from its seed. Times are in virtual milliseconds.

Timeouts are small, so that ten virtual seconds hold some ten faults.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.testing.sim.cluster.sim_cluster import COMBINED

BROKER, CONTROLLER = "broker", "controller"
HEARTBEATS_PER_SESSION = 5
# Kafka waits for ten elections; a cluster here has some more, for disks with long queues.
SETTLE_FACTOR = 20
SETTLE_MS_MIN = 15_000
SEEDS_PER_ROTTEN_ONE = 6
REPLICAS = 3
PLAIN, IDEMPOTENT, LEADER_ONLY = "plain", "idempotent", "leader-only"
PRODUCER_KINDS = (PLAIN, IDEMPOTENT, IDEMPOTENT, LEADER_ONLY)
DISKS_CHANCE = 0.4
DELIVERS_CHANCE = 0.4
SEEDS_PER_DYNAMIC_QUORUM = 5  # one of them has its voters in the log, the others are static


class Hazard(Enum):
    """How nodes die. KILLS: files keep all that was written. POWER: under fsync, unsynced bytes are
    lost. TAILS: the same under page-cache, so acknowledged records leave a log; few deaths at a
    time. DISKS: a disk comes back empty or older; few deaths at a time. BEYOND: TAILS without a
    limit, so lost records are counted only."""

    KILLS = "kills"
    POWER = "power"
    TAILS = "tails"
    DISKS = "disks"
    BEYOND = "beyond"


HAZARDS = {
    "fsync": (Hazard.POWER, Hazard.POWER, Hazard.POWER, Hazard.DISKS),
    "page-cache": (Hazard.KILLS,) * 4
    + (Hazard.TAILS,) * 4
    + (Hazard.DISKS,) * 2
    + (Hazard.BEYOND,),
}
DIRECTORIES = (
    {"log.dirs": "data"},
    {"log.dirs": "data", "metadata.log.dir": "metadata"},
    {"log.dirs": "data,more-data"},
    {"log.dirs": "data,more-data", "metadata.log.dir": "metadata"},
)
# With a directory that is lost for good, two replicas are left.
MIN_INSYNC = {
    Hazard.KILLS: (1, 2, 2, 2, 2, 3),
    Hazard.POWER: (1, 2, 2, 2, 2, 3),
    Hazard.TAILS: (2, 2, 2, 3),
    Hazard.DISKS: (2,),
    Hazard.BEYOND: (1, 2, 2, 3),
}


@dataclass(frozen=True, slots=True)
class ClusterDraw:
    """A cluster and its surroundings."""

    roles: tuple[str, ...]
    late_ids: tuple[int, ...]  # nodes that join later
    kraft_version: int
    settings: Mapping[str, str]
    session_ms: int
    fetch_timeout_ms: int
    election_ms: int
    faults_end_ms: float
    fault_gap_ms: float
    moment_fault_chance: float  # of a fault right after an election or a committed change
    rots: bool  # metadata logs have unreadable records for a while
    clock_drift: float
    disk_ms: float
    cold_chance: float
    breaks_connections: bool
    producers: tuple[str, ...]  # their kinds
    readers: int
    admins: int
    rest_ms: float  # of an actor between two requests
    segment_bytes: int
    min_insync: int
    hazard: Hazard
    delivers: bool  # transactions and groups
    group_session_ms: int

    @property
    def deaths_max(self) -> int | None:
        """Return how many nodes may die unclean before all in-sync sets are whole again; None if
        any number keeps all acknowledged records."""
        return self.min_insync - 1 if self.hazard in (Hazard.TAILS, Hazard.DISKS) else None

    @property
    def may_lose(self) -> bool:
        """Return whether deaths go beyond the promises of a cluster."""
        return self.hazard is Hazard.BEYOND

    @property
    def loses_power(self) -> bool:
        return self.hazard is not Hazard.KILLS

    @property
    def is_synced(self) -> bool:
        """Return whether an acknowledgement means a synced record."""
        return self.settings["log.durability"] == "fsync"

    @property
    def settle_ms(self) -> float:
        """Return how long the cluster may take to serve again after the last fault has healed."""
        timeouts_ms = self.session_ms + self.fetch_timeout_ms + self.election_ms
        return max(SETTLE_MS_MIN, SETTLE_FACTOR * timeouts_ms)


def draw_cluster(seed: int, chance: random.Random) -> ClusterDraw:
    """Return the settings of a seed."""
    pick = chance.choice
    roles, late_ids = _draw_roles(chance)
    session_ms = chance.randint(200, 900)
    election_ms = chance.randint(50, 200)
    fetch_timeout_ms = chance.randint(100, 400)
    durability = pick(("fsync", "page-cache"))
    hazard = pick(HAZARDS[durability])
    if BROKER in roles and chance.random() < DISKS_CHANCE:
        hazard = Hazard.DISKS  # the disks of brokers that do not vote may be lost
    min_insync = pick(MIN_INSYNC[hazard])
    delivers = hazard is not Hazard.BEYOND and chance.random() < DELIVERS_CHANCE
    group_session_ms = pick((300, 800))
    settings = _draw_settings(chance, session_ms, election_ms, fetch_timeout_ms) | {
        "log.durability": durability,
        "min.insync.replicas": str(min_insync),
        "transaction.state.log.min.isr": str(min_insync),
        "group.consumer.session.timeout.ms": str(group_session_ms),
    }
    return ClusterDraw(
        roles=roles,
        late_ids=late_ids,
        kraft_version=int(seed % SEEDS_PER_DYNAMIC_QUORUM == 0),
        settings=settings,
        session_ms=session_ms,
        fetch_timeout_ms=fetch_timeout_ms,
        election_ms=election_ms,
        faults_end_ms=float(chance.randint(4_000, 8_000)),
        fault_gap_ms=float(chance.randint(300, 900)),
        moment_fault_chance=pick((0.0, 0.05, 0.15)),
        rots=(seed + 1) % SEEDS_PER_ROTTEN_ONE == 0,
        clock_drift=pick((0.0, 0.001, 0.01)),
        disk_ms=pick((1.0, 8.0, 8.0, 30.0)),
        cold_chance=pick((0.0, 0.0, 0.5)),
        breaks_connections=chance.random() < 0.25,
        producers=tuple(pick(PRODUCER_KINDS) for _ in range(chance.randint(1, 2))),
        readers=1,
        admins=chance.randint(1, 2),
        rest_ms=pick((60.0, 150.0, 300.0)),
        segment_bytes=pick((20_000, 400_000)),
        min_insync=min_insync,
        hazard=hazard,
        delivers=delivers,
        group_session_ms=group_session_ms,
    )


def _draw_settings(
    chance: random.Random, session_ms: int, election_ms: int, fetch_timeout_ms: int
) -> dict[str, str]:
    """Return the settings of all nodes that have no part in the promises."""
    pick = chance.choice
    snapshot_bytes = pick((1_500, 4_000, 20_000_000))
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // HEARTBEATS_PER_SESSION),
        "controller.quorum.election.timeout.ms": str(election_ms),
        "controller.quorum.fetch.timeout.ms": str(fetch_timeout_ms),
        "controller.quorum.election.backoff.max.ms": str(chance.randint(20, election_ms)),
        "controller.quorum.request.timeout.ms": str(chance.randint(100, 400)),
        "controller.socket.timeout.ms": str(pick((1_000, 4_000))),
        **pick(DIRECTORIES),
        "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        "log.segment.delete.delay.ms": str(pick((0, 200))),
        "log.preallocate": pick(("true", "false")),
        "log.flush.offset.checkpoint.interval.ms": str(pick((100, 60_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(pick((70, 5_000))),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "replica.lag.time.max.ms": str(chance.randint(150, 600)),
        "replica.fetch.wait.max.ms": str(chance.randint(20, 100)),
        "replica.fetch.max.bytes": str(pick((1, 2_000, 1_048_576))),
        "replica.fetch.backoff.ms": str(chance.randint(10, 60)),
        "replica.socket.timeout.ms": str(chance.randint(200, 600)),
        "leader.imbalance.check.interval.seconds": str(pick((1, 300))),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "group.initial.rebalance.delay.ms": str(pick((0, 100))),
        "group.min.session.timeout.ms": "50",
        "group.consumer.min.session.timeout.ms": "50",
        "group.consumer.min.heartbeat.interval.ms": "1",
        "group.consumer.heartbeat.interval.ms": "50",
        "group.consumer.assignment.interval.ms": str(pick((0, 100))),
    }


def _draw_roles(chance: random.Random) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the roles of all nodes, and the ids of those that join later."""
    kind = chance.random()
    if kind < 0.7:
        return (COMBINED,) * 3, ()
    if kind < 0.85:
        return (*(CONTROLLER,) * 3, *(BROKER,) * 3), ()
    return (*(COMBINED,) * 3, BROKER), (4,)
