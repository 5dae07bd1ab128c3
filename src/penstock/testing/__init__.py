"""Real nodes for tests: no Docker, no Java, ready in a fraction of a second.

from penstock.testing import Cluster

with Cluster() as cluster:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

`Cluster` is one or more nodes, in this process or as separate processes. `intercept` with its
actions makes a broker fail, wait or be silent. The assertions work against any Kafka. Names are
loaded on first use: every run of pytest imports this package, and few use all of it.
"""

from typing import TYPE_CHECKING

from penstock.late import loaded_late

if TYPE_CHECKING:
    from penstock.testing.assertions import assert_records, read_committed, wait_until_caught_up
    from penstock.testing.cluster import Cluster
    from penstock.testing.external_cluster import ClusterLike, OutsideCluster
    from penstock.testing.failures import NodeFailed, NotPossible
    from penstock.testing.intercepting.actions import (
        Action,
        Delay,
        Drop,
        Fail,
        InterceptedRequest,
        Pass,
        Silence,
    )
    from penstock.testing.intercepting.taps import Interception
    from penstock.testing.unit_tests import ClusterTestCase

__all__ = [
    "Action",
    "Cluster",
    "ClusterLike",
    "ClusterTestCase",
    "Delay",
    "Drop",
    "Fail",
    "InterceptedRequest",
    "Interception",
    "NodeFailed",
    "NotPossible",
    "OutsideCluster",
    "Pass",
    "Silence",
    "assert_records",
    "read_committed",
    "wait_until_caught_up",
]

_MODULES = {
    "assertions": ("assert_records", "read_committed", "wait_until_caught_up"),
    "cluster": ("Cluster",),
    "failures": ("NodeFailed", "NotPossible"),
    "intercepting.actions": (
        "Action",
        "Delay",
        "Drop",
        "Fail",
        "InterceptedRequest",
        "Pass",
        "Silence",
    ),
    "intercepting.taps": ("Interception",),
    "external_cluster": ("ClusterLike", "OutsideCluster"),
    "unit_tests": ("ClusterTestCase",),
}
__getattr__ = loaded_late(
    globals(),
    {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names},
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
