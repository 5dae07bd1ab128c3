"""The interface of a cluster for tests, which any Kafka can serve, and a cluster given by its
address.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.testing.node_settings import SettingValue

LEADERS_SECONDS_MAX = 15.0
LOOK_AGAIN_SECONDS = 0.02


class ClusterLike(Protocol):
    """A cluster as the fixture `penstock_cluster` gives it: in this process or outside of it."""

    @property
    def bootstrap(self) -> str: ...

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: "Mapping[str, SettingValue] | None" = None,
    ) -> str: ...


class OutsideCluster:
    """A running cluster outside of this process; tests create topics in it and delete them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: "Mapping[str, SettingValue] | None" = None,
    ) -> str:
        """Create a topic, wait until each partition has a leader, and return its name."""
        make_topic(self.bootstrap, name, partitions, config, leaders=True)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic; ignore a missing one."""
        from penstock.client.admin.blocking import Admin

        with Admin(bootstrap=self.bootstrap) as admin:
            failure = admin.delete_topics([name])[name]
        if failure is not None and not isinstance(failure, UnknownTopicOrPartition):
            raise failure


def make_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    config: "Mapping[str, SettingValue] | None",
    *,
    leaders: bool = False,
) -> None:
    """Create a topic; with `leaders` wait until it can be written to, on any Kafka."""
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import NewTopic
    from penstock.testing.node_settings import texts_of

    with Admin(bootstrap=bootstrap) as admin:
        topic = NewTopic(name, partitions=partitions, configs=texts_of(config or {}))
        is_new = isinstance(admin.describe_topics([name])[name], UnknownTopicOrPartition)
        result = admin.create_topics([topic])[name]
        # At a change of the controller a node sends the request again, which may have succeeded.
        if isinstance(result, Exception) and not (
            is_new and isinstance(result, TopicAlreadyExists)
        ):
            raise result
        if leaders:
            _wait_for_leaders(admin, name, partitions)


def _wait_for_leaders(admin: "Admin", name: str, partitions: int) -> None:
    """Wait for the leaders: a controller answers before every broker knows the topic."""
    until = time.monotonic() + LEADERS_SECONDS_MAX
    while True:
        found = admin.describe_topics([name])[name]
        if not isinstance(found, KafkaError):
            led = [each for each in found.partitions if each.leader >= 0]
            if len(led) >= max(1, partitions):
                return
        if time.monotonic() > until:
            raise TimeoutError(f"topic {name} has no leaders yet: {found}")
        time.sleep(LOOK_AGAIN_SECONDS)
