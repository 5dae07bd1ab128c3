"""A group that cannot be served: replaying one of its records, or restoring it, has failed.

Every request of a member is answered with UNKNOWN_SERVER_ERROR and the next step. Its offsets can
be read as before. DeleteGroups writes a tombstone for each of its keys. Once the last key is gone,
a group of that name may begin again, also after a restart.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.records import member_tombstones
from penstock.coordinator.groups.group import CoordinatedGroup, Kind
from penstock.coordinator.records import CoordinatorRecord
from penstock.errors import UnknownServerError
from penstock.wire.records.coordinator import write_coordinator_key
from penstock.wire.records.group import GroupMetadataKey

NEXT_STEP = (
    "Its offsets are kept, its members are not served. Note the offsets, delete the group, "
    "reset its offsets to the noted ones, then start its members again."
)
SHOWN_CHARACTERS_MAX = 200  # of an exception


class SetAsideGroup:
    """A Group whose records are known by their keys alone."""

    def __init__(self, group_id: str, problem: Exception, before: CoordinatedGroup | None) -> None:
        self.group_id = group_id
        self._problem = repr(problem)[:SHOWN_CHARACTERS_MAX]
        self._keys = {write_coordinator_key(key): key for key in _keys_of(before)}

    # The CoordinatedGroup protocol

    @property
    def kind(self) -> Kind:
        return "unknown"

    @property
    def state_name(self) -> str:
        return "Unknown"

    @property
    def protocol_type(self) -> str:
        return ""

    @property
    def is_empty(self) -> bool:
        return False  # so nothing of it expires

    @property
    def empty_since_ms(self) -> int | None:
        return None

    @property
    def rejection(self) -> UnknownServerError:
        return UnknownServerError(
            f"The group {self.group_id!r} was set aside: {self._problem}. {NEXT_STEP}"
        )

    def check_commit(self, *_: Any, **__: Any) -> None:
        raise self.rejection

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None or member_epoch >= 0:
            raise self.rejection

    def check_delete(self) -> None:
        pass  # a delete frees its name

    def is_subscribed_to(self, topic: str) -> bool:  # noqa: ARG002
        return True

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return [CoordinatorRecord(key) for key in self._keys.values()]

    # Records

    def replay(self, record: CoordinatorRecord) -> bool:
        """Note a record of the group; whether any is left."""
        name = write_coordinator_key(record.key)
        if record.value is None:
            self._keys.pop(name, None)
        else:
            self._keys[name] = record.key
        return bool(self._keys)

    def add_key(self, key: object) -> None:
        """Note the key of a record whose value cannot be read."""
        self._keys[write_coordinator_key(key)] = key

    def is_replaced_by(self, record: CoordinatorRecord) -> bool:
        """Return whether the record of a classic group replaces all records set aside."""
        return (
            isinstance(record.key, GroupMetadataKey)
            and record.value is not None
            and all(isinstance(key, GroupMetadataKey) for key in self._keys.values())
        )


def _keys_of(group: CoordinatedGroup | None) -> Iterable[object]:
    """Yield the keys that a half-replayed group may have in the log."""
    if isinstance(group, ClassicGroup):
        yield GroupMetadataKey(group=group.group_id)
    elif isinstance(group, ConsumerGroup):
        yield from (record.key for record in group.tombstones())
        for member_id in group.target:
            yield from (record.key for record in member_tombstones(group.group_id, member_id))
