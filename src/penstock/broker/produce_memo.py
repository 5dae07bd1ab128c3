"""What the beginning of a Produce request means, remembered: a producer repeats itself.

From its client id to its count of partitions a request is the same bytes again and again. They
are looked up as a whole (a Route) instead of being parsed, and the answer is one ready-made
Struct. Only requests for one topic, without unknown tags, are remembered; the general codec does
the rest, and a test proves that both ways answer alike. Bounded, and emptied when metadata moves.
"""

from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.errors import KafkaError
from penstock.wire.codec import write
from penstock.wire.frame import response_frame
from penstock.wire.messages.k00_produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from penstock.broker.connection import Connection
    from penstock.broker.partition import Partition

LAST_VERSION = 13
FLEXIBLE = 9
ROUTES_MAX = 10_000
LENGTHS_MAX = 16
SHAPES_MAX = 1_000
ONE, SEVERAL = 0, 1  # partitions
IN_CODEC = 2
CORRELATION_ID = 1  # where it stands among the values of an answer
_VARIABLE = Struct(">hqqq")
_MARK = _VARIABLE.pack(0x5A5A, 0, -1, 0)

# (who answers, connection, slot or place in a request of several, correlation id)
Ticket = tuple[Any, Any, Any, int]


class Answer:
    """How the answers for one partition look when the request is for it alone."""

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

    def __init__(self, partition: "Partition", route: "Route") -> None:
        self.partition = partition
        self.acks = route.acks
        self.timeout_ms = route.timeout_ms
        self._version = route.version
        (self._before, self._after), packer = _packer([partition], route.version)
        self._pack = packer.pack
        self._size = packer.size - 4

    def succeeded(self, ticket: Ticket, base_offset: int, append_time_ms: int) -> None:
        slot = ticket[2]
        if slot is None:
            return
        slot[0] = self._pack(
            self._size,
            ticket[3],
            self._before,
            0,
            base_offset,
            append_time_ms,
            self.partition.log.start_offset,
            self._after,
        )
        connection = ticket[1]
        if not connection.touched:
            connection.touch()

    def failed(self, ticket: Ticket, error: KafkaError) -> None:
        _, connection, slot, correlation_id = ticket
        connection.listener.broker.counts.produce_failed(self.partition, error.code)
        if slot is None:
            connection.close()  # acks=0 has no other way to hear of it
            return
        response = failures(self.partition, [failure(self.partition, error)])
        connection.fill(slot, response_frame(0, self._version, correlation_id, response))

    def waits(self, ticket: Ticket) -> None:
        """It is not answered at the end of its turn."""
        ticket[1].listener.broker.counts.timed_alone += 1

    def waited(self, ticket: Ticket, since_ms: float) -> None:
        """It is answered now."""
        listener = ticket[1].listener
        listener.broker.counts.produce_times.note(listener.now_ms() - since_ms)


class Several:
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

    def __init__(self, route: "Route", shape: "Shape", connection: "Connection", slot: Any) -> None:
        self.acks = route.acks
        self.timeout_ms = route.timeout_ms
        self._route = route
        self._shape = shape
        self._connection = connection
        self._slot = slot
        self._left = len(shape.partitions)
        self._values = shape.template.copy()
        self._errors: dict[int, KafkaError] | None = None
        self._since_ms = connection.active_at_ms
        connection.listener.broker.counts.timed_alone += 1

    def succeeded(self, ticket: Ticket, base_offset: int, append_time_ms: int) -> None:
        place = ticket[2]
        values = self._values
        values[place] = base_offset
        values[place + 1] = append_time_ms
        self._left -= 1
        if not self._left:
            self._answer(ticket[3])

    def waits(self, _ticket: Ticket) -> None:
        """It is timed as a whole."""

    def waited(self, _ticket: Ticket, _since_ms: float) -> None:
        """It is timed as a whole."""

    def failed(self, ticket: Ticket, error: KafkaError) -> None:
        if self._errors is None:
            self._errors = {}
        self._errors[ticket[2]] = error
        self._left -= 1
        if not self._left:
            self._answer(ticket[3])

    def _answer(self, correlation_id: int) -> None:
        listener = self._connection.listener
        counts = listener.broker.counts
        counts.produce_times.note(listener.now_ms() - self._since_ms)
        if self._errors:
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
        if self._errors:
            slot[0] = self._mixed(self._errors, correlation_id)
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
            base_offset, append_time_ms, log_start_offset = self._values[place : place + 3]
            entries.append(
                PartitionProduceResponse(
                    index=partition.index,
                    base_offset=base_offset,
                    log_append_time_ms=append_time_ms,
                    log_start_offset=log_start_offset,
                )
            )
        response = failures(self._shape.partitions[0], entries)
        return response_frame(0, self._route.version, correlation_id, response)


class Shape:
    """Which partitions a request names, in their order, and how its answers look."""

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


class Route:
    """What one beginning means: topic, acks, timeout, and how many partitions follow."""

    __slots__ = (
        "_partitions",
        "acks",
        "answers",
        "count",
        "shapes",
        "timeout_ms",
        "version",
        "way",
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
        # Which way its requests go: that of topics with a codec of their own looks at it first.
        codec = any(each.settings.codec is not None for each in islice(partitions.values(), 1))
        self.way = (ONE if count == 1 else SEVERAL) + (IN_CODEC if codec else 0)
        self.answers: dict[int, Answer] = {}
        self.shapes: dict[tuple[int, ...], Shape] = {}
        self._partitions = partitions

    def learn(self, index: int) -> Answer | None:
        """How to answer for a partition, unless it needs the general way."""
        partition = self._usable(index)
        if partition is None:
            return None
        answer = self.answers[index] = Answer(partition, self)
        return answer

    def learn_shape(self, indexes: tuple[int, ...]) -> Shape | None:
        partitions = [self._usable(index) for index in indexes]
        known = [each for each in partitions if each is not None]
        if len(known) < len(indexes) or len(set(indexes)) < len(indexes):
            return None
        if len(self.shapes) >= SHAPES_MAX:
            self.shapes.clear()
        shape = self.shapes[indexes] = Shape(known, self.version)
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


class ProduceMemo:
    """Routes by the bytes that stand for them, per version of the request."""

    def __init__(self) -> None:
        self.routes: list[dict[bytes, Route]] = [{} for _ in range(LAST_VERSION + 1)]
        self._lengths: dict[int, None] = {}
        self.requests = [0] * (LAST_VERSION + 1)  # Produce requests that came, by version
        self.misses = 0  # of them, those that the codec had to read

    def clear(self) -> None:
        for routes in self.routes:
            routes.clear()
        self._lengths.clear()

    def search(
        self, connection: "Connection", data: memoryview, start: int, stop: int, version: int
    ) -> Route | None:
        """A connection that writes to several topics has beginnings of several lengths."""
        routes = self.routes[version]
        for length in self._lengths:
            if start + length < stop:
                route = routes.get(bytes(data[start + 8 : start + length]))
                if route is not None:
                    connection.produce_prefix = length
                    return route
        return None

    def remember(
        self,
        connection: "Connection",
        frame: memoryview,
        request: ProduceRequest,
        body: int,
        version: int,
        partitions: dict[int, "Partition"],
    ) -> None:
        """Only what the codec would write the same way: a request without unknown tags."""
        if frame[body:] != write(request, version):
            return
        wanted = request.topic_data[0].partition_data
        tail = sum(_size_of(each.records or b"", version) for each in wanted)
        length = len(frame) - tail - (2 if version >= FLEXIBLE else 0)
        full = len(self._lengths) >= LENGTHS_MAX and length not in self._lengths
        if full or len(self.routes[version]) >= ROUTES_MAX:
            self.clear()
        self._lengths[length] = None
        route = Route(partitions, request, len(wanted), version)
        self.routes[version][bytes(frame[8:length])] = route
        connection.produce_prefix = length


def failure(partition: "Partition", error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.message,
    )


def failures(partition: "Partition", entries: list[PartitionProduceResponse]) -> ProduceResponse:
    topic = TopicProduceResponse(
        name=partition.topic, topic_id=partition.topic_id, partition_responses=entries
    )
    return ProduceResponse(responses=[topic])


def _packer(partitions: Sequence["Partition"], version: int) -> tuple[list[bytes], Struct]:
    """The constant pieces of an answer, and a Struct that puts the variable parts between them."""
    entries = [
        PartitionProduceResponse(index=each.index, error_code=0x5A5A, log_start_offset=0)
        for each in partitions
    ]
    frame = response_frame(0, version, 0, failures(partitions[0], entries))
    pieces = frame[8:].split(_MARK)
    assert len(pieces) == len(partitions) + 1, "the mark occurs nowhere else"
    between = "".join(f"{len(piece)}shqqq" for piece in pieces[:-1])
    return pieces, Struct(f">ii{between}{len(pieces[-1])}s")


def _size_of(records: Any, version: int) -> int:
    """Bytes of one partition in a request: index, length, records, tags."""
    size = len(records)
    if version < FLEXIBLE:
        return 4 + 4 + size
    return 4 + max(1, ((size + 1).bit_length() + 6) // 7) + size + 1
