"""The simulations of the runner, and the events that a sweep of each must reach."""

from penstock.testing.sim.cluster.simulation import ClusterSimulation
from penstock.testing.sim.quorum.simulation import QuorumSimulation
from penstock.testing.sim.sweep import SimulationKind

QUORUM_EVENTS = (
    "elections",
    "pre-votes denied",
    "votes denied",
    "truncations",
    "snapshots installed",
    "downloads dropped",
    "log cuts",
    "resignations",
    "check-quorum losses",
    "restarted leaders",
    "restarted candidates",
    "losses of power",
    "losses of all power",
    "crashes after a vote",
    "crashes after an election",
    "isolations after an election",
    "kills",
    "pauses",
    "splits",
    "isolations",
    "one-way partitions",
    "slow disks",
    "full disks",
    "shutdowns",
)
CLUSTER_EVENTS = (
    "elections",
    "controller fail-overs",
    "pre-votes denied",
    "truncations",
    "snapshots installed",
    "resignations",
    "leaderships lost",
    "fenced brokers",
    "re-registrations",
    "stale broker epochs rejected",
    "duplicate registrations rejected",
    "forwarded requests retried",
    "forwarded requests redirected",
    "kills",
    "losses of power",
    "losses of all power",
    "vanished machines",
    "clean stops",
    "rolling restarts",
    "pauses",
    "isolations",
    "splits",
    "one-way partitions",
    "connects that hang",
    "slow disks",
    "full disks",
    "swapped disks",
    "wall clock jumps",
    "brokers unregistered",
    "second processes of a broker",
    "faults at a dangerous moment",
)
QUORUM = SimulationKind("quorum", QuorumSimulation, QUORUM_EVENTS, seeds_per_task=50)
CLUSTER = SimulationKind("cluster", ClusterSimulation, CLUSTER_EVENTS, seeds_per_task=4)
KINDS = {each.name: each for each in (QUORUM, CLUSTER)}
