"""Handles the records of topics, retries failed ones, and writes the rest to dead-letter topics.

    retrying = Retrying(bootstrap="localhost:9092", group="billing")
    retrying.add("orders", bill, value=Order, ladder=("5s", "1m", "10m"))
    await retrying.run()

A handler is a coroutine function of one record; an exception fails the attempt. Each record is
handled at least once. Its outcome (retry record, dead letter or result) is written exactly once,
in the transaction that commits its offset.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.client.admin.aio import Admin
from penstock.client.failures import Fenced, ProducerLost, is_retriable
from penstock.client.serde.protocols import DeserializerLike, SerializerLike, unwaiting
from penstock.client.serde.serde_lookup import deserializer_of, serializer_of
from penstock.client.settings import SettingValue
from penstock.client.transport.connection import CannotReach
from penstock.errors import InvalidProducerEpoch, ProducerFenced
from penstock.model import TopicPartition
from penstock.retry.clock import RetryClock, WallClock
from penstock.retry.idempotency_keys import IdempotencyKeys
from penstock.retry.ladder import DEFAULT_LADDER, Ladder, Names
from penstock.retry.partition_state import Counts
from penstock.retry.route import Guard, Handler, Output, TopicRoute
from penstock.retry.session import RetrySession, SessionConfig, open_session
from penstock.retry.settings import client_settings

log = logging.getLogger("penstock.retry")

IN_FLIGHT_MAX = 1_000
STOP_SECONDS = 30.0
# After a failure that may pass, a new session starts after a pause.
RESTART_PAUSE_S_MIN = 0.5
RESTART_PAUSE_S_MAX = 30.0
# Errors that end a producer; the next session has a new one.
_PRODUCER_ENDED = (Fenced, InvalidProducerEpoch, ProducerFenced, ProducerLost)


class Retrying:
    """Handles topics in a group, with retries and dead letters.

    Settings are Kafka's names, for all clients or with the prefix `consumer.` or `producer.`.
    """

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
        clock: RetryClock | None = None,
    ) -> None:
        """Prepare a consumer of `group`; `run` starts it. `in_flight_max` bounds the records that
        are read and not committed. While records take long, three times as many may be in flight,
        so that other partitions continue."""
        if in_flight_max < 1:
            raise ValueError("at least one record has to be in flight")
        given = dict(settings or {})
        said = given.pop("namespace", None)
        self.group = group
        self._namespace = namespace if namespace is not None or said is None else str(said)
        self._settings = client_settings(given, bootstrap=bootstrap, group=group)
        self._routes: dict[str, TopicRoute] = {}
        self._in_flight_max = in_flight_max
        self._stop_timeout_s = stop_timeout_s
        self._clock = clock or WallClock()
        self._seen: dict[str, IdempotencyKeys] = {}
        self._stop = asyncio.Event()
        self._state_changed = asyncio.Condition()
        self._session: RetrySession | None = None
        self._had_session = False
        self.counts: dict[str, Counts] = {}
        self._transactions_before = 0  # of earlier sessions
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
        the number of records handled at once; records of one key are handled one by one. Results
        of the handler are written to `output`, in the same transaction. A plain function blocks
        the event loop: penstock.worker runs these on threads.
        """
        if guard is not None and not isinstance(guard, Guard):
            raise TypeError(f"guard={guard!r}: say Guard(...), e.g. Guard('id', window='1h')")
        if topic in self._routes:
            raise ValueError(f"{topic} has a handler already; a topic has one in a group")
        steps = ladder if isinstance(ladder, Ladder) else Ladder.of(ladder)
        route = TopicRoute(
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
            self._seen[topic] = IdempotencyKeys(guard.window_ms)
            log.warning(
                "%s: duplicates are remembered by this process only; a restart, or a partition "
                "that moves, forgets them",
                topic,
            )
        self._routes[topic] = route
        self.counts[topic] = Counts()

    # -- sessions

    def stop(self) -> None:
        """End run() after the records in flight are handled and committed, within the timeout."""
        self._stop.set()

    async def run(self) -> None:
        """Run until stop(). After a failure that may pass (a lost broker, a transaction of unknown
        outcome), a new session starts from the committed offsets. Other failures are raised."""
        if not self._routes:
            raise ValueError("no topic has a handler: add() one first")
        rest_s = RESTART_PAUSE_S_MIN
        while not self._stop.is_set():
            before = self.transactions
            try:
                await self._run_session()
            except Exception as error:
                if not self._may_pass(error):
                    raise
                self.restarts += 1
                rest_s = RESTART_PAUSE_S_MIN if self.transactions > before else rest_s
                log.warning("the session failed; a new one starts in %g s: %s", rest_s, error)
                await self._wait_before_restart(rest_s)
                rest_s = min(2 * rest_s, RESTART_PAUSE_S_MAX)

    def _may_pass(self, error: Exception) -> bool:
        """Return whether a new session may help. A cluster that was never reached is a wrong
        address; a cluster that was reached may come back. The transactional id is unique, so a
        fenced producer was paused for longer than transaction.timeout.ms."""
        return (
            is_retriable(error)
            or isinstance(error, _PRODUCER_ENDED)
            or (self._had_session and isinstance(error, CannotReach))
        )

    async def _run_session(self) -> None:
        async with Admin(self._settings.admin, namespace=self._namespace) as admin:
            config = SessionConfig(
                self._settings,
                self.group,
                tuple(self._routes.values()),
                self._namespace,
                self._clock,
                self._in_flight_max,
                self.counts,
                self._seen,
                self._state_changed,
            )
            session = self._session = await open_session(config, admin)
            self._had_session = True
            try:
                await session.run(self._stop, self._stop_timeout_s)
            finally:
                self._transactions_before += session.writer.transactions
                self._session = None

    async def _wait_before_restart(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    # -- progress

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` returns True; called after each commit and each rebalance. `holds`
        may read counts, in_flight and partitions."""
        async with self._state_changed:
            await self._state_changed.wait_for(holds)

    @property
    def transactions(self) -> int:
        """Return how many transactions were committed."""
        now = 0 if self._session is None else self._session.writer.transactions
        return self._transactions_before + now

    @property
    def in_flight(self) -> int:
        """Return how many records are read and not committed."""
        return 0 if self._session is None else self._session.in_flight

    @property
    def held(self) -> int:
        """Return how many records wait in memory until they are due."""
        return 0 if self._session is None else len(self._session.delay_queue)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return the source partitions that this process handles."""
        return (
            []
            if self._session is None
            else [TopicPartition(*each) for each in self._session.partition_states]
        )
