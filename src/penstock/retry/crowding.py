"""Partitions that keep the others waiting: a record takes long, and nothing behind it can be
committed. They stand still until they have caught up, and the others go on."""

from collections.abc import Mapping, Sized

from penstock.retry.ownership import Source

# So long room is waited for before somebody is found to take too much of it.
CROWDED_S = 1.0
# Nobody more is left out while all hold so many times what is allowed; the rest may then hold as
# much as is allowed once more.
SHARE_MAX = 2


class Crowding:
    """Of one life. `courses` are the records of each source that are read and not committed."""

    def __init__(self, in_flight_max: int) -> None:
        self._limit = in_flight_max
        self.sources: set[Source] = set()

    def others(self, courses: Mapping[Source, Sized]) -> int:
        """How many records the rest has in flight."""
        return sum(len(each) for source, each in courses.items() if source not in self.sources)

    def begin(self, courses: Mapping[Source, Sized]) -> list[Source]:
        """Who takes more than his share, and did not so far."""
        if sum(map(len, courses.values())) >= SHARE_MAX * self._limit:
            return []
        fair = self._fair(courses)
        found = [
            source
            for source, each in courses.items()
            if source not in self.sources and len(each) > fair
        ]
        self.sources.update(found)
        return found

    def eased(self, courses: Mapping[Source, Sized]) -> list[Source]:
        """Who has caught up, or is gone."""
        fair = self._fair(courses)
        return [each for each in self.sources if len(courses.get(each, ())) <= fair // 2]

    def end(self, courses: Mapping[Source, Sized]) -> None:
        self.sources.difference_update(self.eased(courses))

    def _fair(self, courses: Mapping[Source, Sized]) -> int:
        return self._limit // (len(courses) + 1)
