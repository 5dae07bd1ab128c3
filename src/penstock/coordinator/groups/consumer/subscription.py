"""The topics that a group is subscribed to, and a hash that shows when they change."""

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from typing import Final

from penstock.coordinator.cluster import ClusterView, TopicView
from penstock.coordinator.groups.consumer.group import ResolvedRegex
from penstock.coordinator.groups.consumer.member import ConsumerMember

_HASH_BYTES: Final = 8
NO_TOPICS_HASH: Final = 0
# Topics whose number is kept at hand; more of them cost time, nothing else.
HASHES_KEPT_MAX: Final = 10_000


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the names that a member is subscribed to, by name or by regular expression."""
    resolved = regexes.get(member.regex) if member.regex else None
    return member.topics if resolved is None else member.topics | resolved.topics


def all_topics(
    members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex], cluster: ClusterView
) -> frozenset[str]:
    """Return the existing topics that a group is subscribed to."""
    # Members of a group are mostly alike: each subscription is looked at once.
    subscriptions = {(member.topics, member.regex): member for member in members}
    return frozenset[str]().union(
        *(_existing_names(topics_of(each, regexes), cluster) for each in subscriptions.values())
    )


def existing_topics(names: Collection[str], cluster: ClusterView) -> list[TopicView]:
    """Return the topics that exist, in the order of their names."""
    found = (cluster.topic(name) for name in _existing_names(names, cluster))
    return sorted((view for view in found if view is not None), key=lambda view: view.name)


def _existing_names(names: Collection[str], cluster: ClusterView) -> Collection[str]:
    """Return the names without those that surely do not exist. A member may subscribe to many
    names, so the shorter list is walked over."""
    every = cluster.topic_names()
    return names if len(names) <= len(every) else [name for name in every if name in names]


class MetadataHash:
    """A number that changes with the id of a topic, its partitions, or the racks of its replicas.
    The same after every start."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._by_topic: dict[str, tuple[TopicView, bytes]] = {}

    def of(self, names: Collection[str]) -> int:
        parts = [self._of_topic(view) for view in existing_topics(names, self._cluster)]
        if not parts:
            return NO_TOPICS_HASH
        digest = blake2b(b"".join(parts), digest_size=_HASH_BYTES).digest()
        return int.from_bytes(digest, "big", signed=True)

    def _of_topic(self, view: TopicView) -> bytes:
        known = self._by_topic.get(view.name)
        if known is not None and known[0] is view:
            return known[1]
        if len(self._by_topic) >= HASHES_KEPT_MAX:
            self._by_topic.clear()
        racks = [sorted(each) for each in view.racks]
        described = repr((view.name, view.topic_id.hex(), view.partitions, racks)).encode()
        digest = blake2b(described, digest_size=_HASH_BYTES).digest()
        self._by_topic[view.name] = (view, digest)
        return digest
