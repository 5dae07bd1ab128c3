"""The rows about three nodes; those with a limit in seconds or percent judge Penstock alone."""

import os
import time
from statistics import median

from bench import usage
from bench.cluster import NODES, ThreeNodes
from bench.row import Context, Row, Sample, Suite
from bench.stats import Bound, Target
from penstock.wire.messages import k19_create_topics as k19

FAILOVERS, KILLS, KILLS_QUICK = 3, 20, 3
IDLE_SECONDS, IDLE_SECONDS_QUICK = 20.0, 5.0
SETTLE_SECONDS, SETTLE_SECONDS_QUICK = 10.0, 3.0
AS_FAST = Target(Bound.AT_MOST, 1.0)


def _of(context: Context) -> ThreeNodes:
    assert context.cluster is not None, "a suite of three nodes has a cluster"
    return context.cluster


def created(context: Context) -> Sample:
    """Seconds until each node knows a leader of each of the many new partitions."""
    return Sample(_of(context).fill(context.quick))


def failed_over(context: Context) -> Sample:
    """Seconds from SIGKILL of the active controller to a changed topic: the median of some."""
    cluster = _of(context)
    cluster.fill(context.quick)
    found = []
    for _ in range(FAILOVERS):
        found.append(cluster.fail_over())
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


def _kills(context: Context) -> list[tuple[float, float]]:
    """Kill the active controller many times; return the seconds of each fail-over, and of each
    return beyond the session that the new controller gave to the killed broker."""
    cluster = _of(context)
    if cluster.kills:
        return cluster.kills
    topic = k19.CreatableTopic(name="kills", num_partitions=-1, replication_factor=-1)
    topic.assignments = [
        k19.CreatableReplicaAssignment(partition_index=number, broker_ids=[node_id])
        for number, node_id in enumerate(NODES)
    ]
    cluster.create(topic, cluster.nodes[0])
    cluster.partitions = len(NODES)
    cluster.wait_for_leaders()
    for _ in range(KILLS_QUICK if context.quick else KILLS):
        got = cluster.fail_over()
        killed = got.killed
        killed.launch()
        served_at = cluster.wait(
            lambda: killed.serves("kills", killed.node_id - 1),  # noqa: B023
            "a killed node that serves again",
            cluster.nodes,
        )
        late_s = served_at - got.named_at - cluster.session_s
        cluster.kills.append((got.changed_at - got.began, late_s))
        cluster.start()
        cluster.wait_for_leaders()
    return cluster.kills


def slowest_kill(context: Context) -> Sample:
    """Seconds from SIGKILL of the active controller to a changed topic: the slowest of many."""
    seconds = [fail_over for fail_over, _ in _kills(context)]
    return Sample(max(seconds), None, {"median_s": median(seconds), "kills": float(len(seconds))})


def slowest_return(context: Context) -> Sample:
    """Seconds from the end of its older session until a killed node serves: the slowest of many."""
    seconds = [late for _, late in _kills(context)]
    return Sample(max(seconds), None, {"median_s": median(seconds), "kills": float(len(seconds))})


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
                ("return", "slowest return of a killed node", limits[1], slowest_return),
            )
        ),
    )
)
