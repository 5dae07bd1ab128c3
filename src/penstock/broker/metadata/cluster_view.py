"""The broker's image as coordinators see it: coordinator.cluster.ClusterView."""

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.config.broker import BrokerConfig
from penstock.controller.image import GROUP, ConfigResourceId, Image, Topic
from penstock.coordinator.cluster import TopicView


class ImageHolder(Protocol):
    """The broker, whose image and settings change."""

    image: Image
    config: BrokerConfig


class ImageView:
    """The newest image. The view of a topic is made once per version of the topic."""

    def __init__(self, broker: ImageHolder) -> None:
        self._broker = broker
        self._views: dict[str, tuple[Topic, TopicView]] = {}

    def topic(self, name: str) -> TopicView | None:
        topic = self._broker.image.topics.get(name)
        if topic is None:
            self._views.pop(name, None)
            return None
        known = self._views.get(name)
        if known is None or known[0] is not topic:
            known = self._views[name] = (topic, self._view(topic))
        return known[1]

    def topic_by_id(self, topic_id: bytes) -> TopicView | None:
        name = self._broker.image.topic_names.get(topic_id)
        return None if name is None else self.topic(name)

    def topic_names(self) -> Collection[str]:
        return self._broker.image.topics

    def consumer_assignment_interval_ms(self) -> int:
        return self._broker.config.integer("group.consumer.assignment.interval.ms")

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self._broker.image.config(ConfigResourceId(GROUP, group_id))

    def brokers_changed(self) -> None:
        """Forget all views: racks may have changed."""
        self._views.clear()

    def _view(self, topic: Topic) -> TopicView:
        rack_of = {
            broker_id: broker.rack
            for broker_id, broker in self._broker.image.brokers.items()
            if broker.rack
        }
        racks = tuple(
            frozenset(rack_of[replica] for replica in partition.replicas if replica in rack_of)
            for partition in topic.partitions.values()
        )
        return TopicView(topic.name, topic.topic_id, racks)
