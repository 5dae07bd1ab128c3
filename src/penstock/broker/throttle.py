"""Client quotas on this node: bytes, time and connections of clients, and the waits beyond them.

Each node counts for itself. The answer to a client beyond its quota leaves at once and names the
wait (throttle_time_ms); the node reads from its connection again when the wait is over. Requests
of brokers and controllers are never throttled.
"""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image
from penstock.credentials.principal import Caller
from penstock.security.quotas.quota_table import (
    CONNECTION,
    FETCH,
    MUTATION,
    PRODUCE,
    REQUEST,
    MeterNames,
    QuotaTable,
)
from penstock.security.quotas.sampled_rate import SampledRate
from penstock.security.quotas.token_bucket import TokenBucket
from penstock.world import Clock, Timers

METERS_MIN = 1_000  # more of them are looked through for idle ones
PERCENT_PER_MS = 0.1  # a whole second of the loop is 100 %

# WriteTxnMarkers, the requests of controllers and brokers to controllers, RevokeProducer
_NODE_APIS = frozenset((27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 10_000))
_FETCH, _EPOCHS, _TXN_PARTITIONS, _TXN_BATCHES_FROM = 1, 23, 24, 4


def is_between_nodes(key: int, version: int, message: Any) -> bool:
    """Return whether a request is one of a broker or controller."""
    if key == _FETCH:
        return bool(message.replica_id >= 0 or message.replica_state.replica_id >= 0)
    if key == _EPOCHS:
        return bool(message.replica_id >= 0)
    return key in _NODE_APIS or (key == _TXN_PARTITIONS and version >= _TXN_BATCHES_FROM)


# The first versions of CreateTopics, DeleteTopics and CreatePartitions whose clients know the
# rejection of a request beyond a quota.
_REJECTED_FROM = {19: 6, 20: 5, 37: 3}


def tells_of_quotas(key: int, version: int) -> bool:
    return version >= _REJECTED_FROM.get(key, version + 1)


class MutatingRequest(Protocol):
    """A request that creates or deletes partitions."""

    api_key: int
    api_version: int
    client_id: str | None

    @property
    def caller(self) -> Caller: ...


class ThrottledConnection(Protocol):
    """A client's connection, as far as quotas are concerned."""

    active_at_ms: float  # when its bytes arrived
    caller: Caller
    client_id: str
    meters: "ClientMeters | None"
    produced_bytes: int
    throttled_until_ms: float

    def mute(self) -> None: ...

    def release(self) -> None: ...


class Meter:
    """A client's rate under one quota, shared by its connections."""

    __slots__ = ("limit", "rate")

    def __init__(self, limit: float, rate: SampledRate) -> None:
        self.limit = limit
        self.rate = rate

    def wait_ms(self, now_ms: float) -> int:
        return round(self.rate.wait_ms(self.limit, now_ms))


class ClientMeters:
    """The meters of one connection, good for one generation of the quotas."""

    __slots__ = ("caller", "client_id", "fetch", "generation", "produce", "request")

    def __init__(self, generation: int, caller: Caller, client_id: str) -> None:
        self.generation = generation
        self.caller = caller
        self.client_id = client_id
        self.produce: Meter | None = None
        self.fetch: Meter | None = None
        self.request: Meter | None = None


class Throttle:
    """The quotas of all clients of a node. Without quotas a request costs a look at a flag."""

    def __init__(self, clock: Clock, timers: Timers, config: BrokerConfig) -> None:
        self._now_ms: Callable[[], float] = clock.mono_ms
        self._timers = timers
        self._samples = config.integer("quota.window.num")
        self._window_ms = config.integer("quota.window.size.seconds") * 1000
        self._mutation_seconds = config.integer("controller.quota.window.num") * config.integer(
            "controller.quota.window.size.seconds"
        )
        self._table = QuotaTable()
        self._known: object = None  # the quotas of the image that the table was made of
        self._generation = 0
        self._meters: dict[tuple[str, MeterNames], Meter] = {}
        self._meters_max = METERS_MIN
        self._buckets: dict[MeterNames, TokenBucket] = {}
        self.limits_produce = self.limits_fetch = self.limits_requests = False
        self.limits_connections = False

    def follow(self, image: Image) -> bool:
        """Take over the quotas of an image; return whether they have changed."""
        if image.client_quotas is self._known:
            return False
        self._known = image.client_quotas
        self._table = QuotaTable(image.client_quotas.values())
        self._generation += 1
        self.limits_produce = self._table.limits(PRODUCE)
        self.limits_fetch = self._table.limits(FETCH)
        self.limits_requests = self._table.limits(REQUEST)
        self.limits_connections = self._table.limits(CONNECTION)
        return True

    # -- what connections do

    def produced(self, connection: ThrottledConnection) -> None:
        """Count the Produce requests of a turn, and let the client wait if they were too many."""
        size, connection.produced_bytes = connection.produced_bytes, 0
        now_ms = self._now_ms()
        if connection.throttled_until_ms <= now_ms:
            connection.throttled_until_ms = 0.0  # its answers name no wait any more
        self._count(connection, self._of(connection).produce, size)
        if self.limits_requests:
            self.requested(connection, now_ms - connection.active_at_ms)

    def fetch_wait_ms(self, connection: ThrottledConnection) -> int:
        """Return how long a client that has fetched too much gets no records; 0 for all others."""
        meter = self._of(connection).fetch
        return 0 if meter is None else meter.wait_ms(self._now_ms())

    def fetch_bytes(self, connection: ThrottledConnection, wanted: int) -> int:
        """Return the bytes of one answer: at most those of the quota in all of its windows."""
        meter = self._of(connection).fetch
        if meter is None:
            return wanted
        return min(wanted, int(meter.limit * (self._samples - 1) * self._window_ms / 1000))

    def fetched(self, connection: ThrottledConnection, size: int) -> None:
        meter = self._of(connection).fetch
        if meter is not None:
            meter.rate.add(size, self._now_ms())

    def requested(self, connection: ThrottledConnection, took_ms: float) -> None:
        """Count the time of a request, and let the client wait, for one window at most."""
        meter = self._of(connection).request
        self._count(connection, meter, took_ms * PERCENT_PER_MS, self._window_ms)

    def _count(
        self,
        connection: ThrottledConnection,
        meter: Meter | None,
        amount: float,
        wait_ms_max: int | None = None,
    ) -> None:
        if meter is None:
            return
        now_ms = self._now_ms()
        meter.rate.add(amount, now_ms)
        wait_ms = meter.wait_ms(now_ms)
        if wait_ms:
            self.mute(connection, wait_ms if wait_ms_max is None else min(wait_ms, wait_ms_max))

    def mute(self, connection: ThrottledConnection, wait_ms: int) -> None:
        """Read nothing from a connection for so long."""
        until_ms = self._now_ms() + wait_ms
        if until_ms <= connection.throttled_until_ms:
            return
        connection.throttled_until_ms = until_ms
        connection.mute()
        self._timers.at(until_ms, connection.release)

    def left_ms(self, connection: ThrottledConnection) -> int:
        """Return how long a connection is not read from."""
        return max(0, round(connection.throttled_until_ms - self._now_ms()))

    # -- changes of the metadata, and new connections

    def mutate(self, request: MutatingRequest, partitions: int) -> int:
        """Count partitions that a request creates or deletes. Return the wait of a client beyond
        its quota: its request is rejected and does not count, unless its version knows no such
        rejection."""
        bucket = self._bucket(request) if partitions else None
        if bucket is None:
            return 0
        now_ms = self._now_ms()
        wait_ms = round(bucket.wait_ms(now_ms))
        if not wait_ms or not tells_of_quotas(request.api_key, request.api_version):
            bucket.take(partitions, now_ms)
        return wait_ms

    def connected(self, address: str) -> int:
        """Count a new connection, unless its address has opened too many; return how long such a
        connection waits for its end."""
        limit = self._table.of_address(address)
        if limit is None:
            return 0
        meter, now_ms = self._meter(CONNECTION, (address, None), limit), self._now_ms()
        meter.rate.add(1, now_ms)
        wait_ms = meter.wait_ms(now_ms)
        if wait_ms:
            meter.rate.add(-1, now_ms)
        return min(wait_ms, self._window_ms)

    # -- meters

    def _of(self, connection: ThrottledConnection) -> ClientMeters:
        known = connection.meters
        if (
            known is None
            or known.generation != self._generation
            or known.caller is not connection.caller
            or known.client_id != connection.client_id
        ):
            known = ClientMeters(self._generation, connection.caller, connection.client_id)
            known.produce = self._meter_of(PRODUCE, known)
            known.fetch = self._meter_of(FETCH, known)
            known.request = self._meter_of(REQUEST, known)
            connection.meters = known
        return known

    def _meter_of(self, kind: str, client: ClientMeters) -> Meter | None:
        quota = self._table.find(kind, client.caller.principal.name, client.client_id)
        return None if quota is None else self._meter(kind, quota.meter, quota.limit)

    def _meter(self, kind: str, names: MeterNames, limit: float) -> Meter:
        meter = self._meters.get((kind, names))
        if meter is None:
            if len(self._meters) >= self._meters_max:
                self._forget_idle()
            meter = self._meters[kind, names] = Meter(
                limit, SampledRate(self._samples, self._window_ms)
            )
        meter.limit = limit
        return meter

    def _forget_idle(self) -> None:
        """Forget the meters that have counted nothing for all of their windows. Connections look
        for theirs again."""
        now_ms = self._now_ms()
        self._meters = {
            key: meter for key, meter in self._meters.items() if not meter.rate.is_idle(now_ms)
        }
        self._meters_max = max(METERS_MIN, 2 * len(self._meters))
        self._generation += 1

    def _bucket(self, request: MutatingRequest) -> TokenBucket | None:
        user, client_id = request.caller.principal.name, request.client_id or ""
        quota = self._table.find(MUTATION, user, client_id)
        if quota is None:
            return None
        bucket = self._buckets.get(quota.meter)
        if bucket is None:
            now_ms = self._now_ms()
            if len(self._buckets) >= METERS_MIN:
                self._buckets = {
                    names: each for names, each in self._buckets.items() if not each.is_full(now_ms)
                }
            bucket = TokenBucket(quota.limit, self._mutation_seconds, now_ms)
            self._buckets[quota.meter] = bucket
        bucket.use(quota.limit)
        return bucket
