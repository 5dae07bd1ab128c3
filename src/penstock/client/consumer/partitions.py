"""The partitions that librdkafka reads for us: where they stand, which are paused, how they move.

Used by whoever has the wheel, between two polls or inside librdkafka's callbacks, so that no
record of an old position can slip past a move.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.client.consumer.committing import Committing, rdkafka_places
from penstock.client.consumer.desk import Desk, Fetched
from penstock.client.consumer.ledger import Place, last_offsets
from penstock.client.consumer.places import committed_offsets
from penstock.client.consumer.plan import Plan
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
    from confluent_kafka import TopicPartition as RdkafkaPlace

log = logging.getLogger("penstock.client.consumer")

# To ask librdkafka for all positions is cheaper than to look at each message, from so many
# messages per partition on.
MESSAGES_PER_POSITION = 8
# librdkafka's words for "begin where the group has committed", for the start and for the end.
COMMITTED, START, END = -1001, -2, -1
_RESETS = {"earliest": START, "latest": END}
# How long a rebalance may be held up to ask for offsets; librdkafka would go on asking.
BEGINNING_PATIENCE_S = 1.0
# It cannot seek what it has not begun to read, or gave up for want of an offset.
_NOT_READING = frozenset(each.code for each in (WrongState, PreviousInProgress, UnknownPartition))


class Partitions:
    """Of one consumer."""

    def __init__(
        self, plan: Plan, desk: Desk, rdkafka: "RdkafkaConsumer", committing: Committing
    ) -> None:
        self._plan = plan
        self._desk = desk
        self._rdkafka = rdkafka
        self._committing = committing
        # All that it has, and the same in librdkafka's words.
        self._places: list[Place] = []
        self._asked: list[RdkafkaPlace] = []
        self._paused: set[Place] = set()
        # Everything stands still because the application does not read.
        self.held = False
        # Positions of librdkafka's as they were last known, and whether it may be further. It keeps
        # those of an earlier assignment until it reads again: of fresh ones nothing is believed.
        self._known: dict[Place, int] = {}
        self._fresh: set[Place] = set()
        self._behind = False

    # -- coming and going

    def take_over(self, starts: Mapping[Place, int | None], *, replacing: bool) -> None:
        """Read these from now on, from an offset or from where the group is; instead of the
        present ones, or beside them."""
        begins = self._beginnings(starts)
        if replacing:
            with self._desk.lock:
                gone = [each for each in self._desk.ledger.places if each not in starts]
            self.forget(gone)
            self._rdkafka.assign(_from(begins))
        else:
            self._rdkafka.incremental_assign(_from(begins))
        with self._desk.lock:
            self._desk.ledger.assign({place: _absolute(at) for place, at in begins.items()})
        self._changed()
        self._unlearn(starts)
        self._paused -= set(starts)
        self._pause_again(starts)

    def _beginnings(self, starts: Mapping[Place, int | None]) -> dict[Place, int | None]:
        """Where to begin, asked for here. Left to itself librdkafka asks after it has taken the
        partitions, and until it knows it hands out what it has kept of an earlier assignment."""
        unsaid = [place for place, at in starts.items() if at is None]
        if not unsaid or self._plan.group is None or self._committing.concerns(unsaid):
            return dict(starts)
        try:
            found = committed_offsets(self._rdkafka, unsaid, BEGINNING_PATIENCE_S)
        except (ClientError, KafkaError) as error:
            log.debug("left to librdkafka: %s", error)
            return dict(starts)
        reset = _RESETS.get(str(self._plan.offset_reset))
        return {**starts, **{place: reset if at is None else at for place, at in found.items()}}

    def let_go(self, places: Collection[Place], *, incrementally: bool) -> None:
        """Read these no longer."""
        if incrementally:
            self._rdkafka.incremental_unassign(_from(dict.fromkeys(places)))
        else:
            self._rdkafka.unassign()
        self.forget(places)

    def forget(self, places: Iterable[Place]) -> None:
        places = list(places)
        with self._desk.lock:
            self._desk.ledger.revoke(places)
        self._paused.difference_update(places)
        self._changed()

    def _unlearn(self, places: Iterable[Place]) -> None:
        """These begin anew, wherever they were."""
        for place in places:
            self._known.pop(place, None)
            self._fresh.add(place)
        self._behind = True

    def _changed(self) -> None:
        with self._desk.lock:
            self._places = self._desk.ledger.places
        self._asked = _from(dict.fromkeys(self._places))
        self._known = {place: at for place, at in self._known.items() if place in self._places}
        self._fresh.intersection_update(self._places)

    # -- positions

    def ends(self, messages: list[Fetched], reached: Mapping[Place, int]) -> Mapping[Place, int]:
        """The offsets behind these messages, per partition, and behind ends that were reached."""
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

    def reached(self, ends: Mapping[Place, int]) -> None:
        """Only ends were reached, and nothing was fetched."""
        self._fresh.difference_update(ends)
        self._desk.lay_down([], ends)

    def catch_up(self) -> None:
        """When there is nothing to read: take over what librdkafka knows and we do not. Its
        positions are behind the markers of transactions, too."""
        if self._behind:
            self._desk.lay_down([], self._positions())
            self._behind = False

    def _positions(self) -> dict[Place, int]:
        """Positions that have changed since they were last known. The others may be further
        meanwhile: an end that is reached moves no position of librdkafka's."""
        changed: dict[Place, int] = {}
        # They come in the order in which they were asked for: no need to ask each for its name.
        for place, each in zip(self._places, self._rdkafka.position(self._asked), strict=True):
            offset = each.offset
            if offset >= 0 and self._known.get(place) != offset and place not in self._fresh:
                changed[place] = self._known[place] = offset
        return changed

    # -- moving

    def move(self, targets: Mapping[Place, int], *, moved: bool = True) -> None:
        """Read on from here. `moved`: because the application said so, which counts as finished."""
        from confluent_kafka import KafkaException

        with self._desk.lock:
            strange = [each for each in targets if not self._desk.ledger.owns(each)]
        if strange:
            raise ClientError(
                f"{self._plan.outside(strange[0])} is not assigned to this consumer",
                next_step="Wait until it is (on_assigned), or name it in assign",
            )
        stuck: dict[Place, int] = {}
        for place, offset in targets.items():
            if place in self._fresh:
                # librdkafka may still ask where it begins, and would take the answer for newer.
                stuck[place] = offset
                continue
            try:
                self._rdkafka.seek(rdkafka_places({place: offset})[0])
            except KafkaException as error:
                if error.args[0].code() not in _NOT_READING:
                    about = f"no way to offset {offset} of {self._plan.outside(place)}"
                    raise from_rdkafka(error, about=about) from error
                stuck[place] = offset
        if stuck:
            self.restart(stuck)
        with self._desk.lock:
            for place, offset in targets.items():
                if moved:
                    self._desk.ledger.move(place, offset)
                else:
                    self._desk.ledger.assign({place: offset})
        self._unlearn(targets)

    def restart(self, targets: Mapping[Place, int | None]) -> None:
        """Begin to read these anew, from an offset or from where the group is."""
        targets = self._beginnings(targets)
        with self._desk.lock:
            ends = self._desk.ledger.ends()
        # A group's member must keep to its protocol's way to assign; without a group both will do.
        if self._plan.cooperative or self._plan.group is None:
            self._rdkafka.incremental_unassign(_from(dict.fromkeys(targets)))
            self._rdkafka.incremental_assign(_from(targets))
            self._unlearn(targets)
        else:
            # The others go on where they are: that is known here, not always to librdkafka.
            self._rdkafka.assign(_from({**ends, **targets}))
            self._unlearn(ends)
        self._pause_again(ends)

    def rewind(self) -> None:
        """Somebody was interrupted while records were on their way: fetch again what is unread."""
        with self._desk.lock:
            places = self._desk.ledger.places
            self._desk.ledger.drop_unread(places)
            ends = self._desk.ledger.ends()
        if ends:
            self.restart(ends)

    # -- pauses

    def pause(self, places: Collection[Place]) -> None:
        """At the application's wish: what is unread of them goes, and is fetched again later."""
        with self._desk.lock:
            owned = [each for each in places if self._desk.ledger.owns(each)]
            targets = {each: self._desk.ledger.position(each) for each in owned}
            self._desk.ledger.drop_unread(owned)
        self._paused.update(owned)
        self._rdkafka.pause(_from(dict.fromkeys(owned)))
        self._step_back({place: at for place, at in targets.items() if at is not None})

    def _step_back(self, targets: Mapping[Place, int]) -> None:
        """librdkafka believes that what was unread has been read."""
        from confluent_kafka import KafkaException

        for place, offset in targets.items():
            try:
                self._rdkafka.seek(rdkafka_places({place: offset})[0])
            except KafkaException:
                self.restart({place: offset})
        self._unlearn(targets)

    def resume(self, places: Collection[Place]) -> None:
        self._paused.difference_update(places)
        if not self.held:
            with self._desk.lock:
                owned = [each for each in places if self._desk.ledger.owns(each)]
            self._rdkafka.resume(_from(dict.fromkeys(owned)))

    @property
    def paused(self) -> list[Place]:
        """By the application, not because it does not read."""
        with self._desk.lock:
            return [each for each in self._desk.ledger.places if each in self._paused]

    def hold(self) -> None:
        """Stand still, so that polling can go on without more records coming."""
        assert not self.held, "it stands still already"
        self.held = True
        with self._desk.lock:
            places = self._desk.ledger.places
        self._rdkafka.pause(
            _from(dict.fromkeys(each for each in places if each not in self._paused))
        )

    def release(self) -> None:
        self.held = False
        with self._desk.lock:
            places = self._desk.ledger.places
        self._rdkafka.resume(
            _from(dict.fromkeys(each for each in places if each not in self._paused))
        )

    def _pause_again(self, places: Iterable[Place]) -> None:
        """What was just assigned is read at once, whatever was paused before."""
        again = [each for each in places if self.held or each in self._paused]
        if again:
            self._rdkafka.pause(_from(dict.fromkeys(again)))


def _absolute(offset: int | None) -> int | None:
    return None if offset is None or offset < 0 else offset


def _from(starts: Mapping[Place, int | None]) -> "list[RdkafkaPlace]":
    return rdkafka_places({place: COMMITTED if at is None else at for place, at in starts.items()})
