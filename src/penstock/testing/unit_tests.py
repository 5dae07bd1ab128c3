"""unittest: a base for test cases that share one cluster per class.

class OrdersTest(ClusterTestCase):
    cluster_settings = {"num.partitions": 3}

    def test_orders(self) -> None:
        topic = self.new_topic()

Beside another base it comes first: class OrdersTest(ClusterTestCase, IsolatedAsyncioTestCase).
"""

import os
import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from penstock.testing.cluster import Cluster
from penstock.testing.external_cluster import ClusterLike, OutsideCluster
from penstock.testing.topic_names import BOOTSTRAP_VARIABLE, TopicNames

if TYPE_CHECKING:
    from penstock.testing.node_settings import SettingValue


class ClusterTestCase(unittest.TestCase):
    """A cluster for the tests of a class, or the one that PENSTOCK_TEST_BOOTSTRAP names."""

    cluster_settings: ClassVar["Mapping[str, SettingValue]"] = {}
    cluster_brokers: ClassVar[int] = 1
    cluster: ClassVar[ClusterLike]
    _topic_names: ClassVar[TopicNames]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls._topic_names = TopicNames()
        outside = os.environ.get(BOOTSTRAP_VARIABLE)
        if outside:
            cls.cluster = OutsideCluster(outside)
            return
        cluster = Cluster(cls.cluster_settings, brokers=cls.cluster_brokers).start()
        cls.addClassCleanup(cluster.close)
        cls.cluster = cluster

    def new_topic(
        self, partitions: int = 1, config: "Mapping[str, SettingValue] | None" = None
    ) -> str:
        """Return a topic for this test alone."""
        name = self._topic_names.of(self.id())
        self.cluster.create_topic(name, partitions, config)
        if isinstance(self.cluster, OutsideCluster):
            self.addCleanup(self.cluster.delete_topic, name)
        return name
