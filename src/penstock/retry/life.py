"""One life: a consumer, a producer, and all that happens between them, until it is told to stop.

    reading    takes records, holds those that are not due, admits the others to their course
    lanes      handle them, in parallel, in the order of keys
    writer     commits what was decided
    due        admits what was held, when its time has come
    upkeep     deletes what was tried from the topics of the ladder, and looks for what is amiss

Partitions come (their state is restored before the first record) and go (what was begun ends, or
is withdrawn when revoke.timeout.ms is over, and what is decided is committed).
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.client.admin.aio import Admin
from penstock.client.consumer import Consumer, Position
from penstock.client.failures import ClientError, NoOffset
from penstock.client.producer import Producer
from penstock.client.records import Record
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.retry import crowding
from penstock.retry.clock import Clock
from penstock.retry.course import Counts, Course
from penstock.retry.crew import Crew
from penstock.retry.crowding import Crowding
from penstock.retry.handling import handle
from penstock.retry.ladder import Names
from penstock.retry.lanes import Job, Lanes
from penstock.retry.ownership import Ownership, Source
from penstock.retry.restoring import new_course, restore
from penstock.retry.route import Route
from penstock.retry.seen import Seen
from penstock.retry.settings import ClientSettings
from penstock.retry.shelf import Shelf
from penstock.retry.topics import Found, Wanted, check_output, prepare
from penstock.retry.trail import NoTrail, read_trail
from penstock.retry.upkeep import Upkeep
from penstock.retry.writer import Writer
from penstock.summed_log import SummedLog

log = logging.getLogger("penstock.retry")

# Of the time that a revocation may take, what the last commit gets.
LAST_COMMIT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a life is made of."""

    settings: ClientSettings
    group: str
    routes: tuple[Route, ...]
    namespace: str | None
    clock: Clock
    in_flight_max: int
    counts: dict[str, Counts]
    # Of guards that are not written: they outlive the clients.
    seen: dict[str, Seen]
    # Told of each commit, and when partitions come or go.
    settled: asyncio.Condition

    def names(self, route: Route) -> Names:
        return Names(route.topic, self.group)

    def wanted(self, route: Route) -> Wanted:
        return Wanted(self.names(route), route.ladder, route.ordered, route.seen_window_ms)


class Life:
    """Made and run once."""

    def __init__(
        self,
        around: Surroundings,
        found: dict[str, Found],
        admin: Admin,
    ) -> None:
        self.around = around
        self.courses: dict[Source, Course] = {}
        self.shelf = Shelf()
        self.crowding = Crowding(around.in_flight_max)
        self._admin = admin
        self._found = found
        self._routes = {route.topic: route for route in around.routes}
        self.ownership = Ownership({t: each.steps.topics for t, each in found.items()})
        self._crew = Crew()
        self._jobs: dict[Job, None] = {}
        self._opening: dict[Source, object] = {}
        self._held_back: set[TopicPartition] = set()  # paused because something of them is held
        # Owned, and not to be read before what belongs to them is here, too.
        self._stayed: set[TopicPartition] = set()
        self._pausing = asyncio.Lock()
        self._shelved = asyncio.Event()
        self._over = False
        settings, namespace = around.settings, around.namespace
        bytes_max = max(each.message_bytes_max for each in found.values())
        self.producer: Producer[bytes, bytes] = Producer(
            settings.transactional(around.group, bytes_max), namespace=namespace
        )
        self.consumer: Consumer[bytes, bytes] = Consumer(
            settings.consumer,
            topics=self.ownership.topics,
            namespace=namespace,
            manual_finish=True,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )
        self.writer = Writer(
            self.consumer,
            self.producer,
            lambda: list(self.courses.values()),
            around.settled,
            around.clock.now_ms,
        )
        self._upkeep = Upkeep(self, admin)
        self.failures = SummedLog(log)  # of handlers: a broken one fails with every record
        self._lanes = {
            route.topic: Lanes(route.concurrency, self._work, self._crew) for route in around.routes
        }

    @property
    def in_flight(self) -> int:
        """Admitted, and not committed."""
        return sum(map(len, self.courses.values()))

    # -- from the first record to the last

    async def run(self, stop: asyncio.Event, stop_timeout_s: float) -> None:
        """Until `stop` is set: what was begun then ends, in time, and is committed."""
        async with self.producer, self.consumer:
            try:
                reading = self._crew.start(self._read())
                falling_due = self._crew.start(self._watch_due())
                self._crew.start(self._watch_crowding())
                self._crew.start(self.writer.run())
                self._crew.start(self._upkeep.run())
                await self._first(stop.wait())
                reading.cancel()
                falling_due.cancel()
                for course in self.courses.values():
                    self._forget(course.trim())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(stop_timeout_s):
                        await self._first(self.writer.wait_until(lambda: not self.in_flight))
                await self._part(stop_timeout_s)
            finally:
                self._over = True
                await self._crew.end()
                self.failures.sum_up()

    async def _part(self, stop_timeout_s: float) -> None:
        if self.in_flight:
            log.warning(
                "%d records were not done within %g s; they will be read again",
                self.in_flight,
                stop_timeout_s,
            )
            return
        try:
            await self.writer.catch_up(patient=True)
        except (KafkaError, ClientError) as error:
            log.info("the last offsets will be committed by others: %s", error)

    async def _first(self, waiting: Coroutine[Any, Any, object]) -> None:
        """Wait for something, unless a task of the crew fails before."""
        task: asyncio.Future[Any] = asyncio.create_task(waiting)
        try:
            await asyncio.wait([task, self._crew.failure], return_when=asyncio.FIRST_COMPLETED)
            if self._crew.failure.done():
                self._crew.failure.result()
            await task
        finally:
            task.cancel()

    async def _read(self) -> None:
        limit = self.around.in_flight_max
        step = max(1, limit // 2)
        async for batch in self.consumer.batches(max=step, timeout_s=0):
            now_ms = self.around.clock.now_ms()
            for record in batch:
                self._sort(record, now_ms)
            await self._sync_pauses()
            await self._wait_for_room(limit - step)

    async def _wait_for_room(self, most: int) -> None:
        """Until no more are in flight; who keeps the others waiting for long is left out of it."""

        def has_room() -> bool:
            return self.crowding.others(self.courses) <= most

        while not has_room():
            try:
                async with asyncio.timeout(crowding.CROWDED_S):
                    await self.writer.wait_until(has_room)
            except TimeoutError:
                slow = self.crowding.begin(self.courses)
                if slow:
                    names = ", ".join(f"{each.topic}-{each.partition}" for each in slow)
                    log.warning("%s stands still: a record of it takes long; others go on", names)
                    await self._sync_pauses()

    async def _watch_crowding(self) -> None:
        while True:
            await self.writer.wait_until(lambda: bool(self.crowding.eased(self.courses)))
            self.crowding.end(self.courses)
            await self._sync_pauses()
            await self.writer.tell()

    def _sort(self, record: Record[bytes, bytes], now_ms: int) -> None:
        source = self.ownership.source_of(record.place)
        if not self.ownership.is_whole(source):
            return  # it went while the record was on its way
        due_ms = self._due_ms(record, source)
        if due_ms > now_ms or self.shelf.holds(record.place):
            self.shelf.put(record, due_ms)
            self._shelved.set()
        else:
            self._admit(record, source)

    def _due_ms(self, record: Record[bytes, bytes], source: Source) -> int:
        if record.topic == source.topic:
            return 0
        try:
            return read_trail(record.headers).due_ms or 0
        except NoTrail:
            return 0  # it is found out again, and buried

    def _admit(self, record: Record[bytes, bytes], source: Source) -> None:
        course, route = self.courses[source], self._routes[source.topic]
        job = Job(route, course, course.admit(record))
        self._jobs[job] = None
        self._lanes[route.topic].put(job)

    async def _work(self, job: Job) -> None:
        try:
            limit_s = self.around.settings.handler_timeout_s
            await handle(job, self.around.clock, limit_s, lambda: self._crew.ended, self.failures)
        finally:
            self._jobs.pop(job, None)
            self.writer.wake()

    # -- what is not due

    async def _watch_due(self) -> None:
        clock = self.around.clock
        while True:
            self._shelved.clear()
            due_ms = self.shelf.next_due_ms()
            waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._shelved.wait())]
            if due_ms is not None:
                waits.append(asyncio.create_task(clock.until(due_ms)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
            for record in self.shelf.take_due(clock.now_ms()):
                self._admit(record, self.ownership.source_of(record.place))
            await self._sync_pauses()

    async def _sync_pauses(self) -> None:
        """Partitions of which something is held, and those that crowd, stand still, the others do
        not."""
        async with self._pausing:
            slow = [each for each in self.crowding.sources if self.ownership.is_whole(each)]
            wanted = {
                *self.shelf.places,
                *(place for source in slow for place in self.ownership.places(source)),
            }
            stop = [each for each in sorted(wanted) if each not in self._held_back]
            go_on = [each for each in sorted(self._held_back) if each not in wanted]
            self._held_back = wanted
            if stop:
                await self.consumer.pause(*stop)
            if go_on:
                await self.consumer.resume(*go_on)

    # -- partitions come

    async def _assigned(self, places: Collection[TopicPartition]) -> None:
        self.writer.membership.forget()
        whole = self.ownership.gained(places)
        # Nothing is read before it is known what waits; inside this call nothing can have been.
        await self.consumer.pause(*places)
        if whole and not self._crew.ended:
            turn = object()
            self._opening.update(dict.fromkeys(whole, turn))
            self._crew.start(self._open(whole, turn))

    async def _open(self, sources: list[Source], turn: object) -> None:
        """Restore what is known of these, then read them."""
        places = [place for source in sources for place in self.ownership.places(source)]
        # Answered once no transaction of an earlier owner is open. What was written with these
        # offsets is in its partitions then, or will be when their ends are reached.
        committed = await self.consumer.committed(*places)
        courses = {
            source: new_course(
                self._routes[source.topic],
                self._found[source.topic].steps,
                source.partition,
                self.around.counts[source.topic],
                self.around.seen.get(source.topic),
            )
            for source in sources
        }
        await restore(
            courses.values(),
            self._admin,
            self.around.settings.consumer,
            self.around.namespace,
            self.around.clock.now_ms(),
        )
        for source, course in courses.items():
            if self._opening.get(source) is not turn:
                continue  # it went meanwhile; if it came back, another turn opens it
            del self._opening[source]
            self.courses[source] = course
            self.writer.begins_at({each: committed[each] for each in self.ownership.places(source)})
            await self._place(source, committed)
            await self.consumer.resume(*self.ownership.places(source))
        await self.writer.tell()

    async def _place(self, source: Source, committed: Mapping[TopicPartition, int | None]) -> None:
        """Have it read from where the group is. What was just assigned is by itself; what stayed
        here while it could not be worked on has been read past that."""
        first, *_ = places = self.ownership.places(source)
        for place in places:
            stayed = place in self._stayed
            self._stayed.discard(place)
            offset = committed[place]
            if offset is None and place == first:
                start = self._first_position(place)
            else:
                start = "start" if offset is None else offset
            if stayed or start not in ("start", offset):
                await self._seek(place, start)

    def _first_position(self, place: TopicPartition) -> Position:
        """Of a source that the group has never read."""
        match self.around.settings.offset_reset:
            case "none":
                raise NoOffset(f"{self.around.group} has no offset for {place}")
            case "latest":
                return "end"
            case ("by_duration", int(duration_ms)):
                return datetime.now(UTC) - timedelta(milliseconds=duration_ms)
        return "start"

    async def _seek(self, place: TopicPartition, to: Position) -> None:
        try:
            await self.consumer.seek(place, to)
        except ClientError:
            if place in self.consumer.assignment:
                raise

    # -- partitions go

    async def _revoked(self, places: Collection[TopicPartition]) -> None:
        """What was begun gets its time; then all that is decided is committed."""
        gone = self._leave(places)
        if self._over:
            return
        limit_s = self.around.settings.revoke_timeout_s
        for course in gone:
            self._forget(course.trim())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s * (1 - LAST_COMMIT_SHARE)):
                await self.writer.wait_until(lambda: not any(map(len, gone)))
        self._withdraw(gone)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s * LAST_COMMIT_SHARE):
                await self.writer.wait_until(lambda: not any(each.portion() for each in gone))
        await self._close(gone, places)

    async def _lost(self, places: Collection[TopicPartition]) -> None:
        """Others have them already: nothing can be committed any more."""
        gone = self._leave(places)
        self._withdraw(gone)
        await self._close(gone, places)

    def _leave(self, places: Collection[TopicPartition]) -> list[Course]:
        """Nothing more is admitted of these; the courses that end."""
        broken = self.ownership.lost(places)
        for source in broken:
            self._opening.pop(source, None)
        self.shelf.drop(place for source in broken for place in self.ownership.places(source))
        self.shelf.drop(places)
        self._held_back -= set(places)
        self._stayed -= set(places)
        kept = [each for source in broken for each in self.ownership.places(source)]
        self._stayed.update(each for each in kept if each not in places)
        self._held_back -= self._stayed
        return [self.courses[source] for source in broken if source in self.courses]

    def _withdraw(self, courses: Iterable[Course]) -> None:
        ending = set(map(id, courses))
        late = [job for job in list(self._jobs) if id(job.course) in ending]
        for job in late:
            self._jobs.pop(job, None)
            job.withdraw()
        if late:
            log.warning("%d records were not done when their partitions went away", len(late))

    async def _close(self, gone: Collection[Course], places: Collection[TopicPartition]) -> None:
        ending = set(map(id, gone))
        self.courses = {s: each for s, each in self.courses.items() if id(each) not in ending}
        self.writer.forget(places)
        if self._stayed and not self._over:
            await self.consumer.pause(*sorted(self._stayed))
        await self.writer.tell()

    def _forget(self, dropped: Iterable[object]) -> None:
        entries = set(map(id, dropped))
        if entries:
            self._jobs = {job: None for job in self._jobs if id(job.entry) not in entries}


async def begin_life(around: Surroundings, admin: Admin) -> Life:
    """The topics are made first."""
    found = {route.topic: await prepare(admin, around.wanted(route)) for route in around.routes}
    for route in around.routes:
        if route.output is not None:
            await check_output(admin, route.topic, route.output.topic)
    return Life(around, found, admin)
