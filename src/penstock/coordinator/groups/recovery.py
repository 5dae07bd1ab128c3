"""After an exception of our own: the group that an event was about is what its records say again.

Before an event is handled, `before` notes the group and the members that wait. If the handling
raises, `restore` puts the group back as its records have it and tells those members to ask again.
A group that cannot be restored is set aside.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.coordinator.events import Call
from penstock.coordinator.groups.classic import ClassicGroup, ClassicWork
from penstock.coordinator.groups.classic.group import Waiting
from penstock.coordinator.groups.consumer.alarms import REFUSED_RETRY_MS
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.turn import RecordsRefused
from penstock.coordinator.groups.consumer.work import ConsumerWork
from penstock.coordinator.groups.group import Group, GroupState
from penstock.coordinator.groups.set_aside import NEXT_STEP, SetAsideGroup
from penstock.effects import Failure, Outcome

NOTHING: Final[Mapping[str, Waiting]] = {}
RESTORED: Final = "The group is what its log says again; its members ask again."


class Before(NamedTuple):
    """A group before an event."""

    group_id: str
    group: Group | None
    joining: Mapping[str, Waiting] = NOTHING
    syncing: Mapping[str, Waiting] = NOTHING


def subjects_of(event: Any) -> Iterable[str]:
    """Return the ids of the groups that an event is about, and may change."""
    if isinstance(event, RecordsRefused):
        # Classic groups have keys of another kind, and are what has ended.
        ids = [getattr(record.key, "group_id", None) for record in event.records]
        ids += [event.ended.group_id] if event.ended is not None else []
        return dict.fromkeys(each for each in ids if each is not None)
    about = event.message if isinstance(event, Call) else event
    group_id = getattr(about, "group_id", None)
    return () if group_id is None else (group_id,)


class Recovery:
    def __init__(self, state: GroupState, classic: ClassicWork, consumer: ConsumerWork) -> None:
        self._state = state
        self._classic = classic
        self._consumer = consumer

    def before(self, event: Any) -> list[Before]:
        return [self._before(group_id) for group_id in subjects_of(event)]

    def _before(self, group_id: str) -> Before:
        group = self._state.groups.get(group_id)
        if isinstance(group, ClassicGroup) and (group.joining or group.syncing):
            return Before(group_id, group, dict(group.joining), dict(group.syncing))
        return Before(group_id, group)

    def restore(
        self, notes: Iterable[Before], event: Any, problem: Exception, now_ms: int
    ) -> Iterator[Outcome]:
        """Yield what brings back each group that the event was about."""
        ended = event.ended if isinstance(event, RecordsRefused) else None
        for note in notes:
            group = note.group
            if ended is not None and ended.group_id == note.group_id:
                group = ended
            about = type(event.message if isinstance(event, Call) else event).__name__
            subject = f"group {note.group_id!r}, {about}"
            try:
                outcome = self._restored(note, group, now_ms)
            except Exception as worse:
                yield Outcome(failures=[self.set_aside(note.group_id, worse, group)])
            else:
                yield replace(outcome, failures=[Failure(subject, problem, RESTORED)])

    def _restored(self, note: Before, group: Group | None, now_ms: int) -> Outcome:
        made = self._state.groups.get(note.group_id)
        outcomes: list[Outcome] = []
        if isinstance(made, ClassicGroup) and made is not group:
            # Made by the event that failed, and nothing of it is in the log.
            joining, syncing = dict(made.joining), dict(made.syncing)
            outcomes.append(self._classic.restore(made, joining, syncing, now_ms))
        match group:
            case ClassicGroup():
                outcomes.append(
                    self._classic.restore(
                        group, note.joining, note.syncing, now_ms, REFUSED_RETRY_MS
                    )
                )
            case ConsumerGroup():
                outcomes.append(self._consumer.restore(group, now_ms))
        return Outcome(
            timers=[timer for each in outcomes for timer in each.timers],
            answers=[answer for each in outcomes for answer in each.answers],
        )

    def set_aside(self, group_id: str, problem: Exception, group: Group | None) -> Failure:
        self._state.groups[group_id] = SetAsideGroup(group_id, problem, group)
        return Failure(f"group {group_id!r}, set aside", problem, NEXT_STEP)
