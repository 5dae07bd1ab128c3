"""The rows about topics with three replicas: min.insync.replicas 2, acks=all.

Node 1 leads every partition, so the CPU of a leader and of a follower can be told apart.
"""

import os
from collections.abc import Callable
from dataclasses import replace

from bench import programs, usage
from bench.cluster import NODES, ClusterNode, ThreeNodes
from bench.row import Context, Row, Sample, Suite
from bench.stats import Bound, Target
from penstock.wire.messages import k19_create_topics as k19

PARTITIONS = 6
MIN_INSYNC = "2"
GIGABYTE = 1e9


def _of(context: Context) -> ThreeNodes:
    assert context.cluster is not None, "a suite of three nodes has a cluster"
    return context.cluster


def _bootstrap(cluster: ThreeNodes) -> str:
    return ",".join(f"127.0.0.1:{node.ports.client}" for node in cluster.nodes)


def _create(context: Context) -> str:
    """Create a topic that node 1 leads; return its name. What earlier rows wrote is on the disk
    before: its write-back would delay this one."""
    os.sync()
    cluster, name = _of(context), context.topic_name()
    topic = k19.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    topic.configs = [k19.CreatableTopicConfig(name="min.insync.replicas", value=MIN_INSYNC)]
    topic.assignments = [
        k19.CreatableReplicaAssignment(partition_index=number, broker_ids=[*NODES])
        for number in range(PARTITIONS)
    ]
    cluster.create(topic, cluster.nodes[0])
    cluster.partitions = PARTITIONS
    cluster.wait_for_leaders()
    return name


def _cpu(nodes: list[ClusterNode]) -> list[float]:
    return [usage.cpu_seconds(node.running().pids()) for node in nodes]


def produced(size: int) -> Callable[[Context], Sample]:
    """Messages per second of one librdkafka producer, and CPU per gigabyte of each role."""

    def measure(context: Context) -> Sample:
        cluster, name = _of(context), _create(context)
        nodes = list(cluster.nodes)
        before = _cpu(nodes)
        got = programs.rdload(
            "produce",
            context.seconds,
            context.warmup,
            bootstrap=_bootstrap(cluster),
            topic=name,
            partitions=PARTITIONS,
            size=size,
            acks="all",
        )
        # The CPU has the warm-up in it, so the bytes have, too: at the rate that was measured.
        rate = got["messages_per_s"]
        gigabytes = rate * size * (context.seconds + context.warmup) / GIGABYTE
        spent = [now - then for then, now in zip(before, _cpu(nodes), strict=True)]
        details = {
            "leader_cpu_s_per_gb": spent[0] / gigabytes,
            "follower_cpu_s_per_gb": max(spent[1:]) / gigabytes,
            "brokers_cpu_s_per_gb": sum(spent) / gigabytes,
            **got.numbers,
        }
        per_million = sum(spent) / (gigabytes * GIGABYTE / size) * 1e6
        return Sample(rate, per_million, details)

    return measure


def paced(size: int) -> Callable[[Context], Sample]:
    """p99 of the delivery reports at a rate that both sides reach."""

    def measure(context: Context) -> Sample:
        cluster, name = _of(context), _create(context)
        got = programs.rdload(
            "pace",
            context.seconds,
            context.warmup,
            bootstrap=_bootstrap(cluster),
            topic=name,
            partitions=PARTITIONS,
            size=size,
            acks="all",
            rate=context.half_rates[size],
        )
        return Sample(got["p99_us"] / 1000, None, dict(got.numbers))

    return measure


def warm_up(context: Context, seconds: float) -> None:
    """Produce until a JVM has compiled what it needs."""
    short = replace(context, seconds=seconds / 2)
    for size in (100, 1000):
        produced(size)(short)
    context.topics_made = short.topics_made


def half_rate(size: int, context: Context) -> float:
    """Return half of the rate that a cluster reaches."""
    return produced(size)(context).value / 2


_FAST = Target(Bound.AT_LEAST, 1.0)
_SOON = Target(Bound.AT_MOST, 1.0)
_SYNCED = Target(Bound.AT_LEAST, 0.7)
_FLUSHED = Target(Bound.AT_LEAST, 2.0)
_RATE = "messages/s"
REPLICATED_ROWS = tuple(
    Row(f"replicated-{name}", f"Three replicas: {title}", unit, target, measure, suite)
    for name, title, unit, target, measure, suite in (
        ("100", "produce 100 B", _RATE, _FAST, produced(100), Suite.REPLICATED),
        ("1k", "produce 1 KB", _RATE, _FAST, produced(1000), Suite.REPLICATED),
        (
            "p99-100",
            "p99 at half of Kafka's rate, 100 B",
            "ms",
            _SOON,
            paced(100),
            Suite.REPLICATED,
        ),
        ("p99-1k", "p99 at half of Kafka's rate, 1 KB", "ms", _SOON, paced(1000), Suite.REPLICATED),
        *(
            (f"{name}-{size_name}", f"{title}, {size_title}", _RATE, target, produced(size), suite)
            for name, title, target, suite in (
                ("synced", "fsync beside Kafka without", _SYNCED, Suite.REPLICATED_SYNCED),
                ("flushed", "fsync beside flush.messages=1", _FLUSHED, Suite.REPLICATED_FLUSHED),
            )
            for size_name, size_title, size in (("100", "100 B", 100), ("1k", "1 KB", 1000))
        ),
    )
)
