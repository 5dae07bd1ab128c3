"""The cluster as commands show it: with fenced brokers, and with its active controller.

Kafka's metadata names any broker as the controller, since each forwards requests. The active
controller is the leader of the metadata quorum.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import ClusterDescription

NO_CONTROLLER = -1
CONTROLLER_SECONDS_MAX = 3.0  # a quorum without a majority has none


def describe_nodes(admin: "Admin") -> "ClusterDescription":
    """Return the cluster. Its controller is NO_CONTROLLER if no active one is known."""
    try:
        cluster = admin.describe_cluster(include_fenced=True)
    except UnsupportedVersion:
        cluster = admin.describe_cluster()
    return replace(cluster, controller_id=_active_controller(admin, cluster.controller_id))


def _active_controller(admin: "Admin", named: int) -> int:
    from penstock.client.failures.kinds import ClientError
    from penstock.client.transport.connection import CannotReach

    try:
        with admin.within(CONTROLLER_SECONDS_MAX):
            return admin.quorum.describe().leader_id
    except UnsupportedVersion:
        return named  # of a Kafka without a quorum
    except (KafkaError, CannotReach, ClientError):
        return NO_CONTROLLER
