"""A real node inside a test's process: no Docker, no Java, ready in a fraction of a second.

from penstock.testing import Cluster

with Cluster() as cluster:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
"""

from penstock.testing.cluster import Cluster, NodeFailed

__all__ = ["Cluster", "NodeFailed"]
