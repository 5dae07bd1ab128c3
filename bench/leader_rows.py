"""The rows about leaders that are lost: until others serve all of their partitions.

A partition counts when its new leader answers a ListOffsets, not when Metadata names one. The
killed node is never the active controller, but in the rows of `controller-kills`.
"""

import time
from collections.abc import Callable, Iterable
from statistics import median

from bench.cluster import NODES, ClusterNode, ThreeNodes
from bench.row import Context, Row, Sample, Suite
from bench.stats import Bound, Target
from penstock.wire.messages import k19_create_topics as k19

LEADERS, LEADERS_QUICK = 2_000, 200  # of each node
KILLS, KILLS_QUICK = 20, 3
MIN_INSYNC = "2"
TOPIC = "led-by-all"


def _of(context: Context) -> ThreeNodes:
    assert context.cluster is not None, "a suite of three nodes has a cluster"
    return context.cluster


def _fill(cluster: ThreeNodes, leaders: int) -> int:
    """Create a topic with so many leaders on each node, and three replicas, unless it is there.
    Return the number of its partitions; earlier rows have left smaller topics."""
    cluster.start()
    partitions = leaders * len(NODES)
    if TOPIC in cluster.topics:
        return partitions
    topic = k19.CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1)
    topic.configs = [k19.CreatableTopicConfig(name="min.insync.replicas", value=MIN_INSYNC)]
    topic.assignments = [
        k19.CreatableReplicaAssignment(
            partition_index=number,
            broker_ids=[NODES[(number + turn) % len(NODES)] for turn in range(len(NODES))],
        )
        for number in range(partitions)
    ]
    cluster.create(topic, cluster.nodes[0])
    cluster.wait(
        lambda: all(node.has_leaders(TOPIC, partitions) for node in cluster.nodes),
        "a leader for every partition",
    )
    return partitions


def _lose_one(
    cluster: ThreeNodes, partitions: int, *, controller: bool = False
) -> tuple[float, float]:
    """Kill a node that leads; return the seconds until the others serve everything, from the kill
    and from the moment at which a node names no killed broker any more."""
    cluster.wait(lambda: _is_whole(cluster), "all replicas in sync")
    active = cluster.active_controller()
    active.elect_preferred(TOPIC, range(partitions))
    killed = next(node for node in cluster.nodes if (node is active) == controller)
    others = [node for node in cluster.nodes if node is not killed]
    share = partitions // len(NODES)
    cluster.wait(lambda: killed.leads(TOPIC) == share, "a node that leads its share")
    began = time.monotonic()
    killed.kill()
    fenced_at = cluster.wait(lambda: _is_fenced(killed, others), "a fenced broker", killed)
    served_at = cluster.wait(
        lambda: sum(node.leads(TOPIC) for node in others) >= partitions, "all leaders", killed
    )
    return served_at - began, served_at - fenced_at


def _is_fenced(killed: ClusterNode, others: Iterable[ClusterNode]) -> bool:
    known = [node.brokers() for node in others]
    return all(known) and any(killed.node_id not in brokers for brokers in known)


def _is_whole(cluster: ThreeNodes) -> bool:
    return all(node.in_sync(TOPIC) for node in cluster.nodes)


def leaders_lost(context: Context) -> Sample:
    """Seconds from the fencing of a broker until others serve all of its partitions."""
    cluster = _of(context)
    partitions = _fill(cluster, LEADERS_QUICK if context.quick else LEADERS)
    since_kill, since_fencing = _lose_one(cluster, partitions)
    cluster.start()
    return Sample(since_fencing, None, {"since_kill_s": since_kill})


def slowest_leader(*, controller: bool) -> Callable[[Context], Sample]:
    """Seconds from SIGKILL of a leader until another one serves: the slowest of many. With
    `controller`, the leader is the active controller too."""

    def measure(context: Context) -> Sample:
        cluster = _of(context)
        partitions = _fill(cluster, 1)
        seconds = []
        for _ in range(KILLS_QUICK if context.quick else KILLS):
            seconds.append(_lose_one(cluster, partitions, controller=controller)[0])
            cluster.start()
        details = {"median_s": median(seconds), "kills": float(len(seconds))}
        return Sample(max(seconds), None, details)

    return measure


LEADER_ROWS = (
    Row(
        "leaders-lost",
        "Three replicas: 2,000 leaders lost, from the fencing to the last new one",
        "s",
        Target(Bound.AT_MOST, 1.0),
        leaders_lost,
        Suite.REPLICATED,
    ),
    *(
        Row(
            f"{name}{suffix}",
            f"Three replicas, {timeouts} timeouts: slowest new leader{title}",
            "s",
            Target(Bound.AT_MOST, limit, "s"),
            slowest_leader(controller=controller),
            suite,
        )
        # A new controller grants full sessions: its election and theirs add up.
        for suffix, timeouts, limits, suite in (
            ("", "Kafka's", (11, 15), Suite.KILLS),
            ("-short", "short", (2, 3), Suite.KILLS_SHORT),
        )
        for name, title, limit, controller in (
            ("leader-kills", "", limits[0], False),
            ("controller-kills", " of a lost controller", limits[1], True),
        )
    ),
)
