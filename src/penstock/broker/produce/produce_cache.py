"""A cache of Produce request prefixes: a producer sends the same prefix again and again.

From its client id to its number of partitions, a request has the same bytes. The cache looks them
up as a whole (a ProduceRoute) instead of parsing them, and the answer is one prepared Struct. Only
requests for one topic without unknown tags are cached. The general codec handles all others, and a
test proves that both paths answer alike. The cache is bounded, and emptied when metadata changes.

A route is proof that its caller may write to the topic. With an authorizer, each caller has routes
of its own; a change of the ACLs empties the cache like every change of the metadata.
"""

from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from penstock.broker.metadata.current_leader import find_leader
from penstock.broker.request import ClientConnection
from penstock.credentials.principal import Caller
from penstock.errors import KafkaError, NotLeaderOrFollower
from penstock.wire.codec import write
from penstock.wire.frame import parse_request_header, response_frame
from penstock.wire.messages.k00_produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition, Ticket

LAST_VERSION = 13
FLEXIBLE = 9
ROUTES_MAX = 10_000
LENGTHS_MAX = 16
SHAPES_MAX = 1_000
ONE, SEVERAL = 0, 1  # partitions
IN_CODEC = 2
CORRELATION_ID = 1  # its index among the values of an answer
_VARIABLE = Struct(">hqqq")
_MARK = _VARIABLE.pack(0x5A5A, 0, -1, 0)


class ProduceAnswer:
    """Answers to requests for one partition."""

    __slots__ = (
        "_after",
        "_before",
        "_pack",
        "_size",
        "_version",
        "acks",
        "partition",
        "timeout_ms",
    )

    def __init__(self, partition: "Partition", route: "ProduceRoute") -> None:
        self.partition = partition
        self.acks = route.acks
        self.timeout_ms = route.timeout_ms
        self._version = route.version
        (self._before, self._after), packer = _packer([partition], route.version)
        self._pack = packer.pack
        self._size = packer.size - 4

    def succeeded(self, ticket: "Ticket", base_offset: int, append_time_ms: int) -> None:
        _, connection, slot, correlation_id = ticket
        if slot is None:
            return
        start_offset = self.partition.log.start_offset
        if connection.throttled_until_ms:
            entry = success(self.partition, base_offset, append_time_ms, start_offset)
            response = of_one_topic(self.partition, [entry])
            name_wait(response, connection)
            slot[0] = response_frame(0, self._version, correlation_id, response)
        else:
            slot[0] = self._pack(
                self._size,
                correlation_id,
                self._before,
                0,
                base_offset,
                append_time_ms,
                start_offset,
                self._after,
            )
        if not connection.touched:
            connection.touch()

    def failed(self, ticket: "Ticket", error: KafkaError) -> None:
        _, connection, slot, correlation_id = ticket
        connection.listener.broker.request_metrics.produce_failed(self.partition, error.code)
        if slot is None:
            connection.close()  # acks=0 gets no answer: closing is the only signal
            return
        entry = failure(self.partition, error)
        response = of_one_topic(self.partition, [entry])
        name_leader(response, self.partition.topic_id, entry, connection)
        name_wait(response, connection)
        connection.fill(slot, response_frame(0, self._version, correlation_id, response))

    def waits(self, ticket: "Ticket") -> None:
        """Time the request alone: its answer comes after this turn."""
        ticket[1].listener.broker.request_metrics.timed_alone += 1

    def waited(self, ticket: "Ticket", since_ms: float) -> None:
        """Note the time of a request that waited."""
        listener = ticket[1].listener
        listener.broker.request_metrics.produce_times.note(listener.now_ms() - since_ms)


class MultiPartitionAnswer:
    """One request for several partitions of a topic, until the last of them has settled.

    A ticket's place is where the partition's base offset stands among the values of the answer.
    """

    __slots__ = (
        "_connection",
        "_errors",
        "_left",
        "_route",
        "_shape",
        "_since_ms",
        "_slot",
        "_values",
        "acks",
        "timeout_ms",
    )

    def __init__(
        self, route: "ProduceRoute", shape: "AnswerShape", connection: ClientConnection, slot: Any
    ) -> None:
        self.acks = route.acks
        self.timeout_ms = route.timeout_ms
        self._route = route
        self._shape = shape
        self._connection = connection
        self._slot = slot
        self._left = len(shape.partitions)
        self._values = shape.template.copy()
        self._errors: dict[int, KafkaError] | None = None
        self._since_ms: float | None = None  # of a request that waits

    def succeeded(self, ticket: "Ticket", base_offset: int, append_time_ms: int) -> None:
        place = ticket[2]
        values = self._values
        values[place] = base_offset
        values[place + 1] = append_time_ms
        self._left -= 1
        if not self._left:
            self._answer(ticket[3])

    def waits(self, _ticket: "Ticket") -> None:
        """Time the request alone: its answer comes after this turn."""
        if self._since_ms is None:
            self._since_ms = self._connection.active_at_ms
            self._connection.listener.broker.request_metrics.timed_alone += 1

    def waited(self, _ticket: "Ticket", _since_ms: float) -> None:
        """Do nothing: the request is timed as a whole."""

    def failed(self, ticket: "Ticket", error: KafkaError) -> None:
        if self._errors is None:
            self._errors = {}
        self._errors[ticket[2]] = error
        self._left -= 1
        if not self._left:
            self._answer(ticket[3])

    def _answer(self, correlation_id: int) -> None:
        if self._since_ms is not None:
            listener = self._connection.listener
            times = listener.broker.request_metrics.produce_times
            times.note(listener.now_ms() - self._since_ms)
        if self._errors:
            counts = self._connection.listener.broker.request_metrics
            partitions = dict(self._shape.places)
            for place, error in self._errors.items():
                counts.produce_failed(partitions[place], error.code)
        slot = self._slot
        if slot is None:
            if self._errors:
                self._connection.close()
            return
        values = self._values
        for place, partition in self._shape.places:
            values[place + 2] = partition.log.start_offset
        if self._errors or self._connection.throttled_until_ms:
            slot[0] = self._mixed(self._errors or {}, correlation_id)
        else:
            values[CORRELATION_ID] = correlation_id
            slot[0] = self._shape.pack(*values)
        if not self._connection.touched:
            self._connection.touch()

    def _mixed(self, errors: dict[int, KafkaError], correlation_id: int) -> bytes:
        entries = []
        for place, partition in self._shape.places:
            if place in errors:
                entries.append(failure(partition, errors[place]))
                continue
            entries.append(success(partition, *self._values[place : place + 3]))
        first = self._shape.partitions[0]
        response = of_one_topic(first, entries)
        for entry in entries:
            name_leader(response, first.topic_id, entry, self._connection)
        name_wait(response, self._connection)
        return response_frame(0, self._route.version, correlation_id, response)


class AnswerShape:
    """The partitions of a request, in order, and the layout of its answers."""

    __slots__ = ("pack", "partitions", "places", "template")

    def __init__(self, partitions: list["Partition"], version: int) -> None:
        pieces, packer = _packer(partitions, version)
        self.partitions = partitions
        self.pack = packer.pack
        # The arguments of `pack`: size, correlation id, then per partition a constant piece, the
        # error code, base offset, append time and log start; and the last piece.
        self.template: list[Any] = [packer.size - 4, 0]
        for piece in pieces[:-1]:
            self.template += (piece, 0, -1, -1, -1)
        self.template.append(pieces[-1])
        self.places = [(4 + 5 * number, each) for number, each in enumerate(partitions)]


class ProduceRoute:
    """The meaning of one prefix: topic, acks, timeout, and the number of partitions."""

    __slots__ = (
        "_partitions",
        "acks",
        "answers",
        "count",
        "path",
        "shapes",
        "timeout_ms",
        "version",
    )

    def __init__(
        self,
        partitions: dict[int, "Partition"],
        request: ProduceRequest,
        count: int,
        version: int,
    ) -> None:
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        self.version = version
        self.count = count
        # The path of its requests; for topics with a codec of their own, one that checks the codec.
        codec = any(each.settings.codec is not None for each in islice(partitions.values(), 1))
        self.path = (ONE if count == 1 else SEVERAL) + (IN_CODEC if codec else 0)
        self.answers: dict[int, ProduceAnswer] = {}
        self.shapes: dict[tuple[int, ...], AnswerShape] = {}
        self._partitions = partitions

    def learn(self, index: int) -> ProduceAnswer | None:
        """Return the answers for a partition; None if its batches need the general path."""
        partition = self._usable(index)
        if partition is None:
            return None
        answer = self.answers[index] = ProduceAnswer(partition, self)
        return answer

    def learn_shape(self, indexes: tuple[int, ...]) -> AnswerShape | None:
        partitions = [self._usable(index) for index in indexes]
        known = [each for each in partitions if each is not None]
        if len(known) < len(indexes) or len(set(indexes)) < len(indexes):
            return None
        if len(self.shapes) >= SHAPES_MAX:
            self.shapes.clear()
        shape = self.shapes[indexes] = AnswerShape(known, self.version)
        return shape

    def _usable(self, index: int) -> "Partition | None":
        partition = self._partitions.get(index)
        if partition is None or not partition.leading:
            return None
        if not (partition.plain or partition.settings.plain_in_codec):
            return None
        if partition.directory.failed:
            return None
        return None if self.acks == -1 and partition.leader.below_min_insync else partition


# By version of the request, and by the bytes of the prefix.
ProduceRoutes = list[dict[bytes, ProduceRoute]]


class _CallerRoutes(ProduceRoutes):
    """The routes of one caller: a list that is freed with the caller's last connection."""


class ProduceCache:
    """Routes by the bytes of their prefix, per version of the request."""

    def __init__(self, *, by_caller: bool = False) -> None:
        self._shared: ProduceRoutes = [{} for _ in range(LAST_VERSION + 1)]
        self._by_caller = by_caller
        self._callers: WeakValueDictionary[Caller, _CallerRoutes] = WeakValueDictionary()
        self._lengths: dict[int, None] = {}
        self._remembered = 0
        self.requests = [0] * (LAST_VERSION + 1)  # Produce requests that came, by version
        self.misses = 0  # of them, those on the general path
        self.metered = False  # a client has a quota of what it sends, or of time

    def routes_of(self, caller: Caller) -> ProduceRoutes:
        """Return the routes that a connection of this caller uses."""
        if not self._by_caller:
            return self._shared
        routes = self._callers.get(caller)
        if routes is None:
            routes = _CallerRoutes({} for _ in range(LAST_VERSION + 1))
            self._callers[caller] = routes
        return routes

    def clear(self) -> None:
        for routes in (self._shared, *self._callers.values()):
            for each in routes:
                each.clear()
        self._lengths.clear()
        self._remembered = 0

    def search(
        self, connection: ClientConnection, data: memoryview, start: int, stop: int, version: int
    ) -> ProduceRoute | None:
        """Find a route by every known prefix length: a connection may write to several topics."""
        routes: dict[bytes, ProduceRoute] = connection.produce_routes[version]
        for length in self._lengths:
            if start + length < stop:
                route = routes.get(bytes(data[start + 8 : start + length]))
                if route is not None:
                    connection.produce_prefix = length
                    if self.metered:
                        header = parse_request_header(data[start:stop])
                        connection.client_id = header.client_id or ""
                    return route
        return None

    def remember(
        self,
        connection: ClientConnection,
        frame: memoryview,
        request: ProduceRequest,
        body: int,
        version: int,
        partitions: dict[int, "Partition"],
    ) -> None:
        """Cache the prefix of a request that the codec encodes to the same bytes."""
        if frame[body:] != write(request, version):
            return
        wanted = request.topic_data[0].partition_data
        tail = sum(_size_of(each.records or b"", version) for each in wanted)
        length = len(frame) - tail - (2 if version >= FLEXIBLE else 0)
        full = len(self._lengths) >= LENGTHS_MAX and length not in self._lengths
        if full or self._remembered >= ROUTES_MAX:
            self.clear()
        self._lengths[length] = None
        self._remembered += 1
        route = ProduceRoute(partitions, request, len(wanted), version)
        connection.produce_routes[version][bytes(frame[8:length])] = route
        connection.produce_prefix = length


def failure(partition: "Partition", error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
    )


def of_one_topic(
    partition: "Partition", entries: list[PartitionProduceResponse]
) -> ProduceResponse:
    topic = TopicProduceResponse(
        name=partition.topic, topic_id=partition.topic_id, partition_responses=entries
    )
    return ProduceResponse(responses=[topic])


def success(
    partition: "Partition", base_offset: int, append_time_ms: int, start_offset: int
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=start_offset,
    )


def name_wait(response: ProduceResponse, connection: ClientConnection) -> None:
    """Tell a client beyond its quota how long it will not be read from."""
    if connection.throttled_until_ms:
        response.throttle_time_ms = connection.listener.broker.throttle.left_ms(connection)


def name_leader(
    response: ProduceResponse,
    topic: str | bytes,
    entry: PartitionProduceResponse,
    connection: ClientConnection,
) -> None:
    """Name the leader in the entry of a partition that this node does not lead. `topic` is a name
    or an id."""
    if entry.error_code != NotLeaderOrFollower.code:
        return
    listener = connection.listener
    leader = find_leader(listener.broker.image, listener.name, topic, entry.index)
    if leader is None:
        return
    entry.current_leader = LeaderIdAndEpoch(
        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
    )
    known = [each.node_id for each in response.node_endpoints]
    if leader.endpoint is not None and leader.leader_id not in known:
        response.node_endpoints.append(leader.endpoint)


def _packer(partitions: Sequence["Partition"], version: int) -> tuple[list[bytes], Struct]:
    """Return the constant pieces of an answer, and a Struct for them and the variable parts."""
    entries = [
        PartitionProduceResponse(index=each.index, error_code=0x5A5A, log_start_offset=0)
        for each in partitions
    ]
    frame = response_frame(0, version, 0, of_one_topic(partitions[0], entries))
    pieces = frame[8:].split(_MARK)
    assert len(pieces) == len(partitions) + 1, "the mark occurs nowhere else"
    between = "".join(f"{len(piece)}shqqq" for piece in pieces[:-1])
    return pieces, Struct(f">ii{between}{len(pieces[-1])}s")


def _size_of(records: Any, version: int) -> int:
    """Return the bytes of one partition in a request: index, length, records, tags."""
    size = len(records)
    if version < FLEXIBLE:
        return 4 + 4 + size
    return 4 + max(1, ((size + 1).bit_length() + 6) // 7) + size + 1
