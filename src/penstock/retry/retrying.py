"""Handles the records of topics, tries again what failed, and buries what cannot be helped.

    retrying = Retrying(bootstrap="localhost:9092", group="billing")
    retrying.add("orders", bill, value=Order, ladder=("5s", "1m", "10m"))
    await retrying.run()

A handler is a coroutine function of one record; what it raises makes the attempt a failed one.
Each record is handled at least once; what becomes of it (its retry record, its dead letter, its
result) is written exactly once, in the transaction that commits its offset.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.client.admin.aio import Admin
from penstock.client.failures import Fenced, ProducerLost, is_retriable
from penstock.client.serde import (
    DeserializerLike,
    SerializerLike,
    deserializer_of,
    serializer_of,
    unwaiting,
)
from penstock.client.settings import SettingValue
from penstock.client.transport.connection import CannotReach
from penstock.errors import InvalidProducerEpoch, ProducerFenced
from penstock.model import TopicPartition
from penstock.retry.clock import Clock, WallClock
from penstock.retry.course import Counts
from penstock.retry.ladder import DEFAULT_LADDER, Ladder, Names
from penstock.retry.life import Life, Surroundings, begin_life
from penstock.retry.route import Guard, Handler, Output, Route
from penstock.retry.seen import Seen
from penstock.retry.settings import client_settings

log = logging.getLogger("penstock.retry")

IN_FLIGHT_MAX = 1_000
STOP_SECONDS = 30.0
# After a failure that may pass, everything begins anew, after a while.
REST_S_MIN = 0.5
REST_S_MAX = 30.0
# What ends a producer and not its work: the next life has a new one.
_PRODUCER_ENDED = (Fenced, InvalidProducerEpoch, ProducerFenced, ProducerLost)


class Retrying:
    """Settings are Kafka's own names, for all clients or with `consumer.`, `producer.` before."""

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        group: str,
        bootstrap: str | None = None,
        namespace: str | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
        stop_timeout_s: float = STOP_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """`in_flight_max` bounds the records that are read and not committed; three times as many
        at most while records take long, so that other partitions go on."""
        if in_flight_max < 1:
            raise ValueError("at least one record has to be in flight")
        given = dict(settings or {})
        said = given.pop("namespace", None)
        self.group = group
        self._namespace = namespace if namespace is not None or said is None else str(said)
        self._settings = client_settings(given, bootstrap=bootstrap, group=group)
        self._routes: dict[str, Route] = {}
        self._in_flight_max = in_flight_max
        self._stop_timeout_s = stop_timeout_s
        self._clock = clock or WallClock()
        self._seen: dict[str, Seen] = {}
        self._stop = asyncio.Event()
        self._settled = asyncio.Condition()
        self._life: Life | None = None
        self._lived = False
        self.counts: dict[str, Counts] = {}
        self._transactions_before = 0  # of earlier lives
        self.restarts = 0

    def add(
        self,
        topic: str,
        handler: Handler,
        *,
        key: DeserializerLike[Any] | None = None,
        value: DeserializerLike[Any] | None = None,
        ladder: Ladder | Sequence[str | float | timedelta] = DEFAULT_LADDER,
        ordered: bool = False,
        concurrency: int = 1,
        guard: Guard | None = None,
        output: str | None = None,
        output_key: SerializerLike[Any] | None = None,
        output_value: SerializerLike[Any] | None = None,
    ) -> None:
        """Handle the records of a topic.

        `ordered` keeps the order of each key also while one of its records waits. `concurrency` is
        how many are handled at once; those of one key never are. With `output` what the handler
        returns is written there, in the same transaction. A handler that is no coroutine function
        runs in the event loop, and holds it up: penstock.worker has threads for those.
        """
        if guard is not None and not isinstance(guard, Guard):
            raise TypeError(f"guard={guard!r}: say Guard(...), e.g. Guard('id', window='1h')")
        if topic in self._routes:
            raise ValueError(f"{topic} has a handler already; a topic has one in a group")
        steps = ladder if isinstance(ladder, Ladder) else Ladder.of(ladder)
        route = Route(
            topic,
            handler,
            unwaiting(deserializer_of(key, is_key=True)),
            unwaiting(deserializer_of(value, is_key=False)),
            steps,
            ordered,
            concurrency,
            guard,
            None
            if output is None
            else Output(
                output,
                unwaiting(serializer_of(output_key, is_key=True)),
                unwaiting(serializer_of(output_value, is_key=False)),
                self._settings.result_bytes_max,
            ),
        )
        names = Names(topic, self.group)
        _ = (names.dead, names.pending, names.seen, *map(names.retry, steps.waits_ms))  # checked
        if guard is not None and not guard.shared:
            self._seen[topic] = Seen(guard.window_ms)
            log.warning(
                "%s: duplicates are remembered by this process only; a restart, or a partition "
                "that moves, forgets them",
                topic,
            )
        self._routes[topic] = route
        self.counts[topic] = Counts()

    # -- life

    def stop(self) -> None:
        """What was begun ends within the time for it, is committed, and run() returns."""
        self._stop.set()

    async def run(self) -> None:
        """Until stop(). A failure that may pass (a broker away, a transaction of unknown outcome)
        begins everything anew from what is committed; another is raised."""
        if not self._routes:
            raise ValueError("no topic has a handler: add() one first")
        rest_s = REST_S_MIN
        while not self._stop.is_set():
            before = self.transactions
            try:
                await self._live()
            except Exception as error:
                if not self._may_pass(error):
                    raise
                self.restarts += 1
                rest_s = REST_S_MIN if self.transactions > before else rest_s
                log.warning("beginning anew in %g s: %s", rest_s, error)
                await self._rest(rest_s)
                rest_s = min(2 * rest_s, REST_S_MAX)

    def _may_pass(self, error: Exception) -> bool:
        """A cluster that was never reached is somebody's mistake; one that was may come back.
        Nobody else has a producer's id: one that is fenced was away for longer than
        transaction.timeout.ms."""
        return (
            is_retriable(error)
            or isinstance(error, _PRODUCER_ENDED)
            or (self._lived and isinstance(error, CannotReach))
        )

    async def _live(self) -> None:
        async with Admin(self._settings.admin, namespace=self._namespace) as admin:
            around = Surroundings(
                self._settings,
                self.group,
                tuple(self._routes.values()),
                self._namespace,
                self._clock,
                self._in_flight_max,
                self.counts,
                self._seen,
                self._settled,
            )
            life = self._life = await begin_life(around, admin)
            self._lived = True
            try:
                await life.run(self._stop, self._stop_timeout_s)
            finally:
                self._transactions_before += life.writer.transactions
                self._life = None

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    # -- how it goes

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that counts, in_flight or partitions tell. Looked at after
        each commit, and when partitions come or go."""
        async with self._settled:
            await self._settled.wait_for(holds)

    @property
    def transactions(self) -> int:
        """That were committed."""
        now = 0 if self._life is None else self._life.writer.transactions
        return self._transactions_before + now

    @property
    def in_flight(self) -> int:
        """Records that are read and not committed."""
        return 0 if self._life is None else self._life.in_flight

    @property
    def held(self) -> int:
        """Records in memory that are not due."""
        return 0 if self._life is None else len(self._life.shelf)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Source partitions that are worked on."""
        return [] if self._life is None else [TopicPartition(*each) for each in self._life.courses]
