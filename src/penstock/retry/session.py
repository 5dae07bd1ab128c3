"""One session: a consumer, a producer, and the work between them, until stop.

    reading      fetches records, delays those that are not due, admits the others
    lanes        handle records in parallel, in the order of keys
    writer       commits outcomes
    due          admits delayed records when they are due
    maintenance  deletes handled records from retry topics, and warns of separated partitions

After an assignment, the state of a partition is restored before its first record is read. At a
revocation, begun records finish or are cancelled after revoke.timeout.ms; then decided records are
committed.
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
from penstock.retry import starvation
from penstock.retry.attempt import handle
from penstock.retry.clock import RetryClock
from penstock.retry.delay_queue import DelayQueue
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.key_lanes import Job, KeyLanes
from penstock.retry.ladder import Names
from penstock.retry.maintenance import Maintenance
from penstock.retry.ownership import Ownership, SourcePartition
from penstock.retry.partition_state import Counts, PartitionState
from penstock.retry.retry_headers import NoTrail, read_trail
from penstock.retry.route import TopicRoute
from penstock.retry.settings import ClientSettings
from penstock.retry.starvation import StarvationTracker
from penstock.retry.state_restore import new_partition_state, restore
from penstock.retry.task_group import RetryTaskGroup
from penstock.retry.topics import PreparedTopics, RequiredTopics, check_output, prepare
from penstock.retry.writer import Writer
from penstock.summed_log import SummedLog

log = logging.getLogger("penstock.retry")

# The share of revoke.timeout.ms that is reserved for the last commit.
LAST_COMMIT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings and shared objects of a session."""

    settings: ClientSettings
    group: str
    routes: tuple[TopicRoute, ...]
    namespace: str | None
    clock: RetryClock
    in_flight_max: int
    counts: dict[str, Counts]
    # Idempotency keys that are not written; they outlive the clients.
    seen: dict[str, IdempotencyKeys]
    # Notified of each commit and each rebalance.
    state_changed: asyncio.Condition

    def names(self, route: TopicRoute) -> Names:
        return Names(route.topic, self.group)

    def wanted(self, route: TopicRoute) -> RequiredTopics:
        return RequiredTopics(self.names(route), route.ladder, route.ordered, route.seen_window_ms)


class RetrySession:
    """A consumer and a producer that run once."""

    def __init__(
        self,
        config: SessionConfig,
        found: dict[str, PreparedTopics],
        admin: Admin,
    ) -> None:
        self.config = config
        self.partition_states: dict[SourcePartition, PartitionState] = {}
        self.delay_queue = DelayQueue()
        self.starvation = StarvationTracker(config.in_flight_max)
        self._admin = admin
        self._found = found
        self._routes = {route.topic: route for route in config.routes}
        self.ownership = Ownership({t: each.steps.topics for t, each in found.items()})
        self._tasks = RetryTaskGroup()
        self._jobs: dict[Job, None] = {}
        self._opening: dict[SourcePartition, object] = {}
        self._held_back: set[TopicPartition] = set()  # paused because records of them are delayed
        # Owned, and paused until the other partitions of their source partition are assigned.
        self._stayed: set[TopicPartition] = set()
        self._pausing = asyncio.Lock()
        self._delayed = asyncio.Event()
        self._over = False
        settings, namespace = config.settings, config.namespace
        bytes_max = max(each.message_bytes_max for each in found.values())
        self.producer: Producer[bytes, bytes] = Producer(
            settings.transactional(config.group, bytes_max), namespace=namespace
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
            lambda: list(self.partition_states.values()),
            config.state_changed,
            config.clock.now_ms,
        )
        self._maintenance = Maintenance(self, admin)
        self.failures = SummedLog(log)  # of handlers: a broken handler fails with every record
        self._lanes = {
            route.topic: KeyLanes(route.concurrency, self._work, self._tasks)
            for route in config.routes
        }

    @property
    def in_flight(self) -> int:
        """Return how many records are admitted and not committed."""
        return sum(map(len, self.partition_states.values()))

    # -- reading and handling

    async def run(self, stop: asyncio.Event, stop_timeout_s: float) -> None:
        """Run until `stop` is set; then finish begun records within the timeout and commit."""
        async with self.producer, self.consumer:
            try:
                reading = self._tasks.start(self._read())
                falling_due = self._tasks.start(self._watch_due())
                self._tasks.start(self._watch_starvation())
                self._tasks.start(self.writer.run())
                self._tasks.start(self._maintenance.run())
                await self._wait_unless_failed(stop.wait())
                reading.cancel()
                falling_due.cancel()
                for partition_state in self.partition_states.values():
                    self._forget(partition_state.trim())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(stop_timeout_s):
                        await self._wait_unless_failed(
                            self.writer.wait_until(lambda: not self.in_flight)
                        )
                await self._commit_last_offsets(stop_timeout_s)
            finally:
                self._over = True
                await self._tasks.end()
                self.failures.sum_up()

    async def _commit_last_offsets(self, stop_timeout_s: float) -> None:
        if self.in_flight:
            log.warning(
                "%d records were not handled within %g s; the next session reads them again",
                self.in_flight,
                stop_timeout_s,
            )
            return
        try:
            await self.writer.commit_markers(wait_for_markers=True)
        except (KafkaError, ClientError) as error:
            log.info("the last offsets are left to the next owner: %s", error)

    async def _wait_unless_failed(self, waiting: Coroutine[Any, Any, object]) -> None:
        """Wait for a coroutine; raise the error of a task of the group that fails before."""
        task: asyncio.Future[Any] = asyncio.create_task(waiting)
        try:
            await asyncio.wait([task, self._tasks.failure], return_when=asyncio.FIRST_COMPLETED)
            if self._tasks.failure.done():
                self._tasks.failure.result()
            await task
        finally:
            task.cancel()

    async def _read(self) -> None:
        limit = self.config.in_flight_max
        step = max(1, limit // 2)
        async for batch in self.consumer.batches(max=step, timeout_s=0):
            now_ms = self.config.clock.now_ms()
            for record in batch:
                self._admit_or_delay(record, now_ms)
            await self._sync_pauses()
            await self._wait_for_room(limit - step)

    async def _wait_for_room(self, most: int) -> None:
        """Wait until at most `most` records are in flight; records of slow partitions do not count
        after a while."""

        def has_room() -> bool:
            return self.starvation.others(self.partition_states) <= most

        while not has_room():
            try:
                async with asyncio.timeout(starvation.STARVED_S):
                    await self.writer.wait_until(has_room)
            except TimeoutError:
                slow = self.starvation.begin(self.partition_states)
                if slow:
                    names = ", ".join(f"{each.topic}-{each.partition}" for each in slow)
                    log.warning(
                        "%s is paused because a record takes long; other partitions continue", names
                    )
                    await self._sync_pauses()

    async def _watch_starvation(self) -> None:
        while True:
            await self.writer.wait_until(lambda: bool(self.starvation.eased(self.partition_states)))
            self.starvation.end(self.partition_states)
            await self._sync_pauses()
            await self.writer.notify()

    def _admit_or_delay(self, record: Record[bytes, bytes], now_ms: int) -> None:
        source = self.ownership.source_of(record.place)
        if not self.ownership.is_whole(source):
            return  # the partition was revoked after the fetch
        due_ms = self._due_ms(record, source)
        if due_ms > now_ms or self.delay_queue.holds(record.place):
            self.delay_queue.put(record, due_ms)
            self._delayed.set()
        else:
            self._admit(record, source)

    def _due_ms(self, record: Record[bytes, bytes], source: SourcePartition) -> int:
        if record.topic == source.topic:
            return 0
        try:
            return read_trail(record.headers).due_ms or 0
        except NoTrail:
            return 0  # admit() finds this out, too, and writes a dead letter

    def _admit(self, record: Record[bytes, bytes], source: SourcePartition) -> None:
        partition_state, route = self.partition_states[source], self._routes[source.topic]
        job = Job(route, partition_state, partition_state.admit(record))
        self._jobs[job] = None
        self._lanes[route.topic].put(job)

    async def _work(self, job: Job) -> None:
        try:
            limit_s = self.config.settings.handler_timeout_s
            await handle(job, self.config.clock, limit_s, lambda: self._tasks.ended, self.failures)
        finally:
            self._jobs.pop(job, None)
            self.writer.wake()

    # -- delayed records

    async def _watch_due(self) -> None:
        clock = self.config.clock
        while True:
            self._delayed.clear()
            due_ms = self.delay_queue.next_due_ms()
            waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._delayed.wait())]
            if due_ms is not None:
                waits.append(asyncio.create_task(clock.until(due_ms)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()
            for record in self.delay_queue.take_due(clock.now_ms()):
                self._admit(record, self.ownership.source_of(record.place))
            await self._sync_pauses()

    async def _sync_pauses(self) -> None:
        """Pause partitions with delayed records and slow partitions; resume the others."""
        async with self._pausing:
            slow = [each for each in self.starvation.sources if self.ownership.is_whole(each)]
            wanted = {
                *self.delay_queue.topic_partitions,
                *(
                    topic_partition
                    for source in slow
                    for topic_partition in self.ownership.topic_partitions(source)
                ),
            }
            stop = [each for each in sorted(wanted) if each not in self._held_back]
            go_on = [each for each in sorted(self._held_back) if each not in wanted]
            self._held_back = wanted
            if stop:
                await self.consumer.pause(*stop)
            if go_on:
                await self.consumer.resume(*go_on)

    # -- assignment

    async def _assigned(self, topic_partitions: Collection[TopicPartition]) -> None:
        self.writer.membership.forget()
        whole = self.ownership.gained(topic_partitions)
        # Pause before the first fetch: the pending keys have to be restored first.
        await self.consumer.pause(*topic_partitions)
        if whole and not self._tasks.ended:
            turn = object()
            self._opening.update(dict.fromkeys(whole, turn))
            self._tasks.start(self._open(whole, turn))

    async def _open(self, sources: list[SourcePartition], turn: object) -> None:
        """Restore the state of source partitions, then resume reading."""
        topic_partitions = [
            topic_partition
            for source in sources
            for topic_partition in self.ownership.topic_partitions(source)
        ]
        # Answered once no transaction of an earlier owner is open. So the records written with
        # these offsets are in their partitions, or appear before their ends are reached.
        committed = await self.consumer.committed(*topic_partitions)
        partition_states = {
            source: new_partition_state(
                self._routes[source.topic],
                self._found[source.topic].steps,
                source.partition,
                self.config.counts[source.topic],
                self.config.seen.get(source.topic),
            )
            for source in sources
        }
        await restore(
            partition_states.values(),
            self._admin,
            self.config.settings.consumer,
            self.config.namespace,
            self.config.clock.now_ms(),
        )
        for source, partition_state in partition_states.items():
            if self._opening.get(source) is not turn:
                continue  # revoked meanwhile; a new assignment opens it again
            del self._opening[source]
            self.partition_states[source] = partition_state
            self.writer.begins_at(
                {each: committed[each] for each in self.ownership.topic_partitions(source)}
            )
            await self._seek_start(source, committed)
            await self.consumer.resume(*self.ownership.topic_partitions(source))
        await self.writer.notify()

    async def _seek_start(
        self, source: SourcePartition, committed: Mapping[TopicPartition, int | None]
    ) -> None:
        """Seek to the committed offsets of the group. A new assignment starts there by itself; a
        partition that stayed while incomplete was read past its committed offset."""
        first, *_ = topic_partitions = self.ownership.topic_partitions(source)
        for topic_partition in topic_partitions:
            stayed = topic_partition in self._stayed
            self._stayed.discard(topic_partition)
            offset = committed[topic_partition]
            if offset is None and topic_partition == first:
                start = self._first_position(topic_partition)
            else:
                start = "start" if offset is None else offset
            if stayed or start not in ("start", offset):
                await self._seek(topic_partition, start)

    def _first_position(self, topic_partition: TopicPartition) -> Position:
        """Return where to start in a source that the group has never read."""
        match self.config.settings.offset_reset:
            case "none":
                raise NoOffset(f"{self.config.group} has no offset for {topic_partition}")
            case "latest":
                return "end"
            case ("by_duration", int(duration_ms)):
                return datetime.now(UTC) - timedelta(milliseconds=duration_ms)
        return "start"

    async def _seek(self, topic_partition: TopicPartition, to: Position) -> None:
        try:
            await self.consumer.seek(topic_partition, to)
        except ClientError:
            if topic_partition in self.consumer.assignment:
                raise

    # -- revocation

    async def _revoked(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Let begun records finish, then commit all decided records."""
        gone = self._stop_admitting(topic_partitions)
        if self._over:
            return
        limit_s = self.config.settings.revoke_timeout_s
        for partition_state in gone:
            self._forget(partition_state.trim())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s * (1 - LAST_COMMIT_SHARE)):
                await self.writer.wait_until(lambda: not any(map(len, gone)))
        self._cancel_jobs(gone)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s * LAST_COMMIT_SHARE):
                await self.writer.wait_until(lambda: not any(each.portion() for each in gone))
        await self._close(gone, topic_partitions)

    async def _lost(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Cancel the work on lost partitions: other members own these, so nothing is committed."""
        gone = self._stop_admitting(topic_partitions)
        self._cancel_jobs(gone)
        await self._close(gone, topic_partitions)

    def _stop_admitting(self, topic_partitions: Collection[TopicPartition]) -> list[PartitionState]:
        """Stop admitting records of these partitions; return the states that end."""
        broken = self.ownership.lost(topic_partitions)
        for source in broken:
            self._opening.pop(source, None)
        self.delay_queue.drop(
            topic_partition
            for source in broken
            for topic_partition in self.ownership.topic_partitions(source)
        )
        self.delay_queue.drop(topic_partitions)
        self._held_back -= set(topic_partitions)
        self._stayed -= set(topic_partitions)
        kept = [each for source in broken for each in self.ownership.topic_partitions(source)]
        self._stayed.update(each for each in kept if each not in topic_partitions)
        self._held_back -= self._stayed
        return [
            self.partition_states[source] for source in broken if source in self.partition_states
        ]

    def _cancel_jobs(self, partition_states: Iterable[PartitionState]) -> None:
        ending = set(map(id, partition_states))
        late = [job for job in list(self._jobs) if id(job.partition_state) in ending]
        for job in late:
            self._jobs.pop(job, None)
            job.cancel()
        if late:
            log.warning(
                "%d records were cancelled because their partitions were revoked", len(late)
            )

    async def _close(
        self, gone: Collection[PartitionState], topic_partitions: Collection[TopicPartition]
    ) -> None:
        ending = set(map(id, gone))
        self.partition_states = {
            s: each for s, each in self.partition_states.items() if id(each) not in ending
        }
        self.writer.forget(topic_partitions)
        if self._stayed and not self._over:
            await self.consumer.pause(*sorted(self._stayed))
        await self.writer.notify()

    def _forget(self, dropped: Iterable[object]) -> None:
        entries = set(map(id, dropped))
        if entries:
            self._jobs = {job: None for job in self._jobs if id(job.entry) not in entries}


async def open_session(config: SessionConfig, admin: Admin) -> RetrySession:
    """Create missing topics, then return a new session."""
    found = {route.topic: await prepare(admin, config.wanted(route)) for route in config.routes}
    for route in config.routes:
        if route.output is not None:
            await check_output(admin, route.topic, route.output.topic)
    return RetrySession(config, found, admin)
