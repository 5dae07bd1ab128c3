"""Finds partitions that use up the records in flight because one record takes long.

Such partitions are paused until their records are committed, and other partitions continue.
"""

from collections.abc import Mapping, Sized

from penstock.retry.ownership import SourcePartition

# How long reading waits for room before slow partitions are paused.
STARVED_S = 1.0
# At this multiple of the limit no further partition is exempted; the others may then hold one
# more limit in total.
SHARE_MAX = 2


class StarvationTracker:
    """Slow partitions of one session; `partition_states` have the records in flight."""

    def __init__(self, in_flight_max: int) -> None:
        self._limit = in_flight_max
        self.sources: set[SourcePartition] = set()

    def others(self, partition_states: Mapping[SourcePartition, Sized]) -> int:
        """Return the records in flight of partitions that are not slow."""
        return sum(
            len(each) for source, each in partition_states.items() if source not in self.sources
        )

    def begin(self, partition_states: Mapping[SourcePartition, Sized]) -> list[SourcePartition]:
        """Mark and return partitions that newly exceed their share."""
        if sum(map(len, partition_states.values())) >= SHARE_MAX * self._limit:
            return []
        fair = self._fair(partition_states)
        found = [
            source
            for source, each in partition_states.items()
            if source not in self.sources and len(each) > fair
        ]
        self.sources.update(found)
        return found

    def eased(self, partition_states: Mapping[SourcePartition, Sized]) -> list[SourcePartition]:
        """Return marked partitions that have caught up or were revoked."""
        fair = self._fair(partition_states)
        return [each for each in self.sources if len(partition_states.get(each, ())) <= fair // 2]

    def end(self, partition_states: Mapping[SourcePartition, Sized]) -> None:
        self.sources.difference_update(self.eased(partition_states))

    def _fair(self, partition_states: Mapping[SourcePartition, Sized]) -> int:
        return self._limit // (len(partition_states) + 1)
