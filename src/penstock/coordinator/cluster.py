"""The view of a coordinator on the cluster: topics, and the settings of groups."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class TopicView(NamedTuple):
    name: str
    topic_id: bytes
    racks: tuple[frozenset[str], ...]  # by partition: where its replicas are

    @property
    def partitions(self) -> int:
        return len(self.racks)


class ClusterView(Protocol):
    """The newest committed image, as far as it matters here."""

    def topic(self, name: str) -> TopicView | None: ...

    def topic_by_id(self, topic_id: bytes) -> TopicView | None: ...

    def topic_names(self) -> Collection[str]:
        """Return all names, in a stable order."""
        ...

    def consumer_assignment_interval_ms(self) -> int:
        """Return the default for consumer groups without a setting of their own."""
        ...

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return the settings of this group, as set by IncrementalAlterConfigs."""
        ...
