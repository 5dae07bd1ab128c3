"""The rows about three nodes; those with a limit in seconds or percent judge Penstock alone."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import NamedTuple

from bench import usage
from bench.cluster import NODES, ClusterNode, ThreeNodes
from bench.row import Context, Row, Sample, Suite
from bench.stats import Bound, Target
from penstock.wire.messages import k19_create_topics as k19

FAILOVERS, KILLS, KILLS_QUICK = 3, 20, 3
IDLE_SECONDS, IDLE_SECONDS_QUICK = 20.0, 5.0
SETTLE_SECONDS, SETTLE_SECONDS_QUICK = 10.0, 3.0
RETENTION_MS_MIN = 1_000_000_000
OWN_TOPIC = "a-partition-on-each"
AS_FAST = Target(Bound.AT_MOST, 1.0)


class FailedOver(NamedTuple):
    """The time of a kill, of another controller's name, and of a setting that was changed then."""

    began: float
    named_at: float
    changed_at: float


def _of(context: Context) -> ThreeNodes:
    assert context.cluster is not None, "a suite of three nodes has a cluster"
    return context.cluster


def created(context: Context) -> Sample:
    """Seconds until each node knows a leader of each of the many new partitions."""
    return Sample(_of(context).fill(context.quick))


def fail_over(cluster: ThreeNodes) -> FailedOver:
    """Kill the active controller; wait until another node names a new one, and changes a topic."""
    killed = cluster.active_controller()
    others = [node for node in cluster.nodes if node is not killed]
    successors = {node.node_id for node in others}
    informed: list[ClusterNode] = []

    def named() -> bool:
        informed.extend(node for node in others if node.active_controller() in successors)
        return bool(informed)

    began = time.monotonic()
    killed.kill()
    named_at = cluster.wait(named, "a new active controller", killed)
    retention_ms = RETENTION_MS_MIN + time.monotonic_ns() % RETENTION_MS_MIN  # a new value
    changed_at = cluster.wait(
        lambda: informed[0].changes(cluster.topics[0], retention_ms), "a changed topic", killed
    )
    return FailedOver(began, named_at, changed_at)


def failed_over(context: Context) -> Sample:
    """Seconds from SIGKILL of the active controller to a changed topic: the median of some."""
    cluster = _of(context)
    cluster.fill(context.quick)
    found = []
    for _ in range(FAILOVERS):
        found.append(fail_over(cluster))
        cluster.start()
        cluster.wait_for_leaders()
    seconds = [each.changed_at - each.began for each in found]
    details = {
        "named_s": median(each.named_at - each.began for each in found),
        "slowest_s": max(seconds),
    }
    return Sample(median(seconds), None, details)


def restarted(context: Context) -> Sample:
    """Seconds from the start of the three to a leader for every partition, after a clean stop."""
    cluster = _of(context)
    cluster.fill(context.quick)
    stopped_s = cluster.stop()
    os.sync()
    began = time.monotonic()
    cluster.start()
    brokers_at = time.monotonic()
    seconds = cluster.wait_for_leaders() - began
    return Sample(seconds, None, {"stop_s": stopped_s, "brokers_s": brokers_at - began})


def idle_cpu(context: Context) -> Sample:
    """CPU of a node without clients, in percent of a core: the busiest of the three."""
    cluster = _of(context)
    cluster.fill(context.quick)
    for node in cluster.nodes:
        node.disconnect()
    time.sleep(SETTLE_SECONDS_QUICK if context.quick else SETTLE_SECONDS)
    groups = [node.running().pids() for node in cluster.nodes]
    before, began = [usage.cpu_seconds(pids) for pids in groups], time.monotonic()
    time.sleep(IDLE_SECONDS_QUICK if context.quick else IDLE_SECONDS)
    after, elapsed = [usage.cpu_seconds(pids) for pids in groups], time.monotonic() - began
    shares = [(now - then) / elapsed * 100 for then, now in zip(before, after, strict=True)]
    names = (f"node_{each}_percent" for each in NODES)
    return Sample(max(shares), None, dict(zip(names, shares, strict=True)))


def slowest_kill(context: Context) -> Sample:
    """Seconds from SIGKILL of the active controller to a changed topic: the slowest of many."""
    cluster = _of(context)
    _create_own(cluster)
    seconds = []
    for _ in range(KILLS_QUICK if context.quick else KILLS):
        got = fail_over(cluster)
        seconds.append(got.changed_at - got.began)
        cluster.start()
        cluster.wait_for_leaders()
    return Sample(max(seconds), None, {"median_s": median(seconds), "kills": float(len(seconds))})


def slowest_return(context: Context) -> Sample:
    """Seconds from the end of its older session until a killed broker serves: the slowest of many.

    The active controller lives on: a new one would let the broker return at once.
    """
    cluster = _of(context)
    _create_own(cluster)
    seconds = []
    for _ in range(KILLS_QUICK if context.quick else KILLS):
        seconds.append(return_late_s(cluster))
        cluster.start()
        cluster.wait_for_leaders()
    return Sample(max(seconds), None, {"median_s": median(seconds), "kills": float(len(seconds))})


def return_late_s(cluster: ThreeNodes) -> float:
    """Kill a broker and start it at once; return how long after its older session it serves.

    The session has ended when the active controller's node no longer tells clients of the broker,
    at the latest a session's length after the kill.
    """
    active = cluster.active_controller()
    killed = next(node for node in cluster.nodes if node is not active)
    served = threading.Event()

    def fenced() -> bool:
        known = active.brokers()
        return served.is_set() or (bool(known) and killed.node_id not in known)

    session_end_max = time.monotonic() + cluster.session_s
    killed.kill()
    killed.launch()
    with ThreadPoolExecutor(1) as beside:
        fenced_at = beside.submit(cluster.wait, fenced, "a fenced broker")
        try:
            served_at = cluster.wait(
                lambda: killed.serves(OWN_TOPIC, NODES.index(killed.node_id)),
                "a killed broker that serves again",
            )
        finally:
            served.set()
    return served_at - min(fenced_at.result(), session_end_max)


def _create_own(cluster: ThreeNodes) -> None:
    """Create a topic with a partition on each node, unless it is there."""
    if cluster.topics:
        return
    topic = k19.CreatableTopic(name=OWN_TOPIC, num_partitions=-1, replication_factor=-1)
    topic.assignments = [
        k19.CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
        for number, node_id in enumerate(NODES)
    ]
    cluster.create(topic, cluster.nodes[0])
    cluster.partitions = len(NODES)
    cluster.wait_for_leaders()


CLUSTER_ROWS = tuple(
    Row(name, title, unit, target, measure, suite)
    for name, title, unit, target, measure, suite in (
        (
            "cluster-create",
            "Three nodes: 10,000 partitions are created",
            "s",
            AS_FAST,
            created,
            Suite.CLUSTER,
        ),
        (
            "cluster-failover",
            "Three nodes with 10,000 partitions: another controller acts",
            "s",
            AS_FAST,
            failed_over,
            Suite.CLUSTER,
        ),
        (
            "cluster-restart",
            "Three nodes with 10,000 partitions: start after a clean stop",
            "s",
            AS_FAST,
            restarted,
            Suite.CLUSTER,
        ),
        (
            "cluster-idle",
            "Three nodes with 10,000 partitions: CPU of each when idle",
            "% of a core",
            Target(Bound.AT_MOST, 1.5, "%"),
            idle_cpu,
            Suite.CLUSTER,
        ),
        *(
            (
                f"cluster-{name}{suffix}",
                f"Three nodes, {timeouts} timeouts: {title}",
                "s",
                Target(Bound.AT_MOST, limit, "s"),
                measure,
                suite,
            )
            for suffix, timeouts, limits, suite in (
                ("", "Kafka's", (4, 2), Suite.KILLS),
                ("-short", "short", (1, 2), Suite.KILLS_SHORT),
            )
            for name, title, limit, measure in (
                ("kills", "slowest fail-over", limits[0], slowest_kill),
                ("return", "slowest return of a killed broker", limits[1], slowest_return),
            )
        ),
    )
)
