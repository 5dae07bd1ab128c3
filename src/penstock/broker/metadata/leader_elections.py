"""Elections of partition leaders, counted by the committed images as Kafka's controllers do.

Every node counts the same. The active controller logs the unclean elections.
"""

import logging

from penstock.controller.delta import Delta
from penstock.controller.image import NO_LEADER, Image, PartitionImage

log = logging.getLogger("penstock.elections")

LISTED_MAX = 10


class LeaderElections:
    """The elections since the start of this node."""

    def __init__(self) -> None:
        self.all = 0
        self.unclean = 0
        self.from_eligible = 0  # of a replica that was eligible and not in sync

    def follow(self, before: Image, image: Image, delta: Delta, *, is_active: bool) -> None:
        """Count the elections between two images. New partitions have a leader from the start."""
        unclean: list[str] = []
        for name, indexes in delta.changed_partitions:
            former, topic = before.topics.get(name), image.topics.get(name)
            if former is None or topic is None or former.topic_id != topic.topic_id:
                continue
            for index in indexes:
                state = topic.partitions[index]
                known = former.partitions.get(index)
                if known is None or not _is_election(known, state):
                    continue
                self.all += 1
                if state.leader in known.isr:
                    continue
                if state.leader in known.eligible_leaders:
                    self.from_eligible += 1
                else:
                    self.unclean += 1
                    if len(state.replicas) > 1:  # the only replica lacks no record of another
                        unclean.append(f"{name}-{index} (leader {state.leader})")
        if unclean and is_active:
            _warn(unclean)


def _is_election(known: PartitionImage, state: PartitionImage) -> bool:
    return state.leader != NO_LEADER and state.leader_epoch != known.leader_epoch


def _warn(unclean: list[str]) -> None:
    more = f" and {len(unclean) - LISTED_MAX} more" if len(unclean) > LISTED_MAX else ""
    log.warning(
        "unclean election of %s%s: no replica in sync was left. Nothing is lost if this is the last"
        " leader, its process was killed, and its disk is whole; else acknowledged records may be"
        " lost: compare with the sources of these topics",
        ", ".join(unclean[:LISTED_MAX]),
        more,
    )
