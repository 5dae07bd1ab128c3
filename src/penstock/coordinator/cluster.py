"""What a coordinator may know of the cluster: the topics, and the settings of groups."""

from collections.abc import Iterable, Mapping
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

    def topic_names(self) -> Iterable[str]:
        """All of them, in a stable order."""
        ...

    def consumer_assignment_interval_ms(self) -> int:
        """What holds for consumer groups that have not set it themselves."""
        ...

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """What IncrementalAlterConfigs has set for this group."""
        ...
