"""Which topics and groups of a node were used between two looks at it."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.values import At, FoundOffset
from penstock.model import TopicPartition
from penstock.sync import Admin


@dataclass(frozen=True)
class NodeState:
    """Ends of logs by topic, committed offsets by group; internal topics are left out."""

    topics: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, tuple[tuple[TopicPartition, int], ...]]

    def used_since(self, before: "NodeState") -> set[str]:
        """Return the names of topics written to, and of groups that committed."""
        topics = {
            f"topic {each}" for each, ends in self.topics.items() if before.topics.get(each) != ends
        }
        groups = {
            f"group {each}" for each, at in self.groups.items() if before.groups.get(each) != at
        }
        return topics | groups


def state_of(bootstrap: str) -> NodeState:
    with Admin(bootstrap=bootstrap) as admin:
        topics: dict[str, tuple[int, ...]] = {}
        for topic in admin.list_topics():
            if topic.name.startswith("__"):
                continue
            places = [TopicPartition(topic.name, each.partition) for each in topic.partitions]
            found = admin.offsets(dict.fromkeys(places, At.END))
            ends = (found[each] for each in places)
            topics[topic.name] = tuple(
                each.offset for each in ends if isinstance(each, FoundOffset)
            )
        groups = {
            each.group_id: tuple(
                sorted(
                    (place, at.offset) for place, at in admin.groups.offsets(each.group_id).items()
                )
            )
            for each in admin.groups.list_all()
        }
    return NodeState(topics, groups)
