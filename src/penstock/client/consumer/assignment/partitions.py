"""The partitions that librdkafka reads: positions, pauses, seeks.

Used by the owner of the poll, between two polls or inside librdkafka's callbacks, so that no record
of an old position passes a seek.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.client.consumer.assignment.resolved_config import ResolvedConfig
from penstock.client.consumer.engine.shared_state import Fetched, SharedState
from penstock.client.consumer.offsets.committing import OffsetCommitter, rdkafka_partitions
from penstock.client.consumer.offsets.offset_lookup import committed_offsets
from penstock.client.consumer.offsets.offset_tracker import PartitionKey, last_offsets
from penstock.client.failures import (
    ClientError,
    PreviousInProgress,
    UnknownPartition,
    WrongState,
    from_rdkafka,
)
from penstock.errors import KafkaError

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer
    from confluent_kafka import TopicPartition as RdkafkaPartition

log = logging.getLogger("penstock.client.consumer")

# From so many messages per partition on, asking librdkafka for all positions costs less than a
# look at each message.
MESSAGES_PER_POSITION = 8
# librdkafka's numbers for the committed offset, the start and the end.
COMMITTED, START, END = -1001, -2, -1
_RESETS = {"earliest": START, "latest": END}
# The time limit of an offset lookup within a rebalance; later librdkafka asks by itself.
BEGINNING_PATIENCE_S = 1.0
# librdkafka cannot seek partitions that it does not read yet, or has no offset for.
_NOT_READING = frozenset(each.code for each in (WrongState, PreviousInProgress, UnknownPartition))


class Partitions:
    """The partitions of one consumer."""

    def __init__(
        self,
        config: ResolvedConfig,
        shared: SharedState,
        rdkafka: "RdkafkaConsumer",
        committer: OffsetCommitter,
    ) -> None:
        self._config = config
        self._shared = shared
        self._rdkafka = rdkafka
        self._committer = committer
        # All assigned partitions, and the same as librdkafka's objects.
        self._places: list[PartitionKey] = []
        self._asked: list[RdkafkaPartition] = []
        self._paused: set[PartitionKey] = set()
        # All partitions are paused because the buffer is full.
        self.held = False
        # librdkafka's last known positions, and whether newer ones exist. Positions of freshly
        # assigned partitions are ignored: before its first fetch librdkafka keeps those of an
        # earlier assignment.
        self._known: dict[PartitionKey, int] = {}
        self._fresh: set[PartitionKey] = set()
        self._behind = False

    # -- coming and going

    def assign_partitions(
        self, starts: Mapping[PartitionKey, int | None], *, replacing: bool
    ) -> None:
        """Read these partitions from an offset or from the committed one, instead of the present
        partitions or beside them."""
        begins = self._start_offsets(starts)
        if replacing:
            self.forget([each for each in self._shared.places if each not in starts])
            self._rdkafka.assign(_from(begins))
        else:
            self._rdkafka.incremental_assign(_from(begins))
        with self._shared.lock:
            self._shared.tracker.assign(
                {at: None if each is None or each < 0 else each for at, each in begins.items()}
            )
        self._changed()
        self._forget_positions(starts)
        self._paused -= set(starts)
        self._pause_again(starts)

    def _start_offsets(
        self, starts: Mapping[PartitionKey, int | None]
    ) -> dict[PartitionKey, int | None]:
        """Look up where to begin. librdkafka would ask after the assignment, and hand out messages
        of an earlier assignment until it knows."""
        unsaid = [place for place, at in starts.items() if at is None]
        if not unsaid or self._config.group is None or self._committer.concerns(unsaid):
            return dict(starts)
        try:
            found = committed_offsets(self._rdkafka, unsaid, BEGINNING_PATIENCE_S)
        except (ClientError, KafkaError) as error:
            log.debug("the offset lookup failed, librdkafka repeats it: %s", error)
            return dict(starts)
        reset = _RESETS.get(str(self._config.offset_reset))
        return {**starts, **{place: reset if at is None else at for place, at in found.items()}}

    def unassign(self, places: Collection[PartitionKey], *, incrementally: bool) -> None:
        """Stop reading these partitions."""
        if incrementally:
            self._rdkafka.incremental_unassign(_from(dict.fromkeys(places)))
        else:
            self._rdkafka.unassign()
        self.forget(places)

    def forget(self, places: Iterable[PartitionKey]) -> None:
        places = list(places)
        with self._shared.lock:
            self._shared.tracker.revoke(places)
        self._paused.difference_update(places)
        self._changed()

    def _forget_positions(self, places: Iterable[PartitionKey]) -> None:
        """Forget the positions of restarted partitions."""
        for place in places:
            self._known.pop(place, None)
            self._fresh.add(place)
        self._behind = True

    def _changed(self) -> None:
        self._places = self._shared.places
        self._asked = _from(dict.fromkeys(self._places))
        self._known = {place: at for place, at in self._known.items() if place in self._places}
        self._fresh.intersection_update(self._places)

    # -- positions

    def ends(
        self, messages: list[Fetched], reached: Mapping[PartitionKey, int]
    ) -> Mapping[PartitionKey, int]:
        """Return the offsets behind these messages and behind reached ends, per partition."""
        if not self._fresh and len(self._asked) * MESSAGES_PER_POSITION <= len(messages):
            found = self._positions()
        else:
            self._behind = True
            found = {place: offset + 1 for place, offset in last_offsets(messages).items()}
            self._known.update(found)
        for place, offset in reached.items():
            found[place] = max(offset, found.get(place, offset))
        self._fresh.difference_update(found)
        return found

    def reached(self, ends: Mapping[PartitionKey, int]) -> None:
        """Record reached ends without messages."""
        self._fresh.difference_update(ends)
        self._shared.enqueue([], ends)

    def catch_up(self) -> None:
        """Record librdkafka's positions: they are behind transaction markers, too."""
        if self._behind:
            self._shared.enqueue([], self._positions())
            self._behind = False

    def _positions(self) -> dict[PartitionKey, int]:
        """Return the positions that have changed. A reached end moves no position of librdkafka."""
        changed: dict[PartitionKey, int] = {}
        # The answers have the order of the question.
        for place, each in zip(self._places, self._rdkafka.position(self._asked), strict=True):
            offset = each.offset
            if offset >= 0 and self._known.get(place) != offset and place not in self._fresh:
                changed[place] = self._known[place] = offset
        return changed

    # -- moving

    def move(self, targets: Mapping[PartitionKey, int], *, moved: bool = True) -> None:
        """Seek. `moved`: the application asked for it, and offsets below count as finished."""
        from confluent_kafka import KafkaException

        with self._shared.lock:
            strange = [each for each in targets if not self._shared.tracker.owns(each)]
        if strange:
            raise ClientError(
                f"{self._config.without_namespace(strange[0])} is not assigned to this consumer",
                next_step="Wait until it is (on_assigned), or name it in assign",
            )
        stuck: dict[PartitionKey, int] = {}
        for place, offset in targets.items():
            if place in self._fresh:
                # librdkafka may still look up the start, and the answer would replace the seek.
                stuck[place] = offset
                continue
            try:
                self._rdkafka.seek(rdkafka_partitions({place: offset})[0])
            except KafkaException as error:
                if error.args[0].code() not in _NOT_READING:
                    about = f"no way to offset {offset} of {self._config.without_namespace(place)}"
                    raise from_rdkafka(error, about=about) from error
                stuck[place] = offset
        if stuck:
            self.restart(stuck)
        with self._shared.lock:
            for place, offset in targets.items():
                if moved:
                    self._shared.tracker.move(place, offset)
                else:
                    self._shared.tracker.assign({place: offset})
        self._forget_positions(targets)

    def restart(self, targets: Mapping[PartitionKey, int | None]) -> None:
        """Start these partitions again, from an offset or from the committed one."""
        targets = self._start_offsets(targets)
        with self._shared.lock:
            ends = self._shared.tracker.ends()
        # A member must assign in the manner of its group protocol.
        if self._config.cooperative or self._config.group is None:
            self._rdkafka.incremental_unassign(_from(dict.fromkeys(targets)))
            self._rdkafka.incremental_assign(_from(targets))
            self._forget_positions(targets)
        else:
            # The other partitions keep their positions, which librdkafka may not know.
            self._rdkafka.assign(_from({**ends, **targets}))
            self._forget_positions(ends)
        self._pause_again(ends)

    def rewind(self) -> None:
        """Fetch all unread messages again, after a reader lost some to an interrupt."""
        with self._shared.lock:
            places = self._shared.tracker.places
            self._shared.tracker.drop_unread(places)
            ends = self._shared.tracker.ends()
        if ends:
            self.restart(ends)

    # -- pauses

    def pause(self, places: Collection[PartitionKey]) -> None:
        """Pause for the application: drop unread messages, and fetch them again later."""
        with self._shared.lock:
            owned = [each for each in places if self._shared.tracker.owns(each)]
            targets = {each: self._shared.tracker.position(each) for each in owned}
            self._shared.tracker.drop_unread(owned)
        self._paused.update(owned)
        self._rdkafka.pause(_from(dict.fromkeys(owned)))
        self._seek_back({place: at for place, at in targets.items() if at is not None})

    def _seek_back(self, targets: Mapping[PartitionKey, int]) -> None:
        """Seek to the first dropped message, which librdkafka counts as read."""
        from confluent_kafka import KafkaException

        for place, offset in targets.items():
            try:
                self._rdkafka.seek(rdkafka_partitions({place: offset})[0])
            except KafkaException:
                self.restart({place: offset})
        self._forget_positions(targets)

    def resume(self, places: Collection[PartitionKey]) -> None:
        self._paused.difference_update(places)
        if not self.held:
            with self._shared.lock:
                owned = [each for each in places if self._shared.tracker.owns(each)]
            self._rdkafka.resume(_from(dict.fromkeys(owned)))

    @property
    def paused(self) -> list[PartitionKey]:
        """Return the assigned partitions that the application has paused."""
        return [each for each in self._shared.places if each in self._paused]

    def hold(self) -> None:
        """Pause all partitions, so that polling goes on without messages."""
        assert not self.held, "it stands still already"
        self.held = True
        self._rdkafka.pause(self._not_paused())

    def release(self) -> None:
        self.held = False
        self._rdkafka.resume(self._not_paused())

    def _not_paused(self) -> "list[RdkafkaPartition]":
        """Return the partitions that the application has not paused."""
        return _from(dict.fromkeys(e for e in self._shared.places if e not in self._paused))

    def _pause_again(self, places: Iterable[PartitionKey]) -> None:
        """Pause partitions again that librdkafka started with their assignment."""
        again = [each for each in places if self.held or each in self._paused]
        if again:
            self._rdkafka.pause(_from(dict.fromkeys(again)))


def _from(starts: Mapping[PartitionKey, int | None]) -> "list[RdkafkaPartition]":
    return rdkafka_partitions(
        {place: COMMITTED if at is None else at for place, at in starts.items()}
    )
