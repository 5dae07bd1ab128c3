"""One client connection: cuts out frames, keeps replies in order, limits unread answers.

A reply slot is taken for each request when it arrives and filled whenever its answer is ready;
only the filled slots at the front leave. Slots are plain lists of one element: this is the hot
path, and an object per request costs more than the request.

A peer that sends ahead without reading is halted: the rest of its bytes, at most one chunk, is kept
and handled after the peer has read enough. Produce does not count, since its answers are smaller
than its requests. When a turn has used its budget (sliced_work.py), other requests wait for a later
turn, in their order.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from struct import Struct
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers.k00_produce import produce
from penstock.broker.network.dispatch import dispatch
from penstock.broker.network.frames import FIRST_BYTES, other_protocol
from penstock.broker.request import Answer, Slot, failed
from penstock.broker.sliced_work import Work
from penstock.broker.throttle import ClientMeters
from penstock.credentials.principal import Caller, anonymous_at
from penstock.wire.apis import APIS
from penstock.world import Peer

if TYPE_CHECKING:
    from penstock.broker.logins.session import SaslSession
    from penstock.broker.network.listener import BrokerListener

REPLIES_WAITING_MAX = 1_024  # requests of one connection that may be unanswered
UNSENT_BYTES_MAX = 2 * 1024 * 1024  # beyond this the peer is not listened to until it reads
UNANSWERED_MAX = 8  # requests, other than Produce, of one connection that may be under way
PRODUCE = 0
HEAD_BYTES = 12  # size, key, version, correlation id
_SIZE = Struct(">i")
_HEAD = Struct(">ihhi")


class BrokerConnection:
    """The node's side of one connection (world.Receiver)."""

    __slots__ = (
        "_buffer",
        "_caller",
        "_filled",
        "_frame_bytes",
        "_frame_since_ms",
        "_going_on",
        "_halted",
        "_head",
        "_holds",
        "_kept",
        "_owed_bytes",
        "_paused",
        "_queued_bytes",
        "_read_goal",
        "_takes_turn",
        "active_at_ms",
        "api_key",
        "client_id",
        "closing",
        "listener",
        "long_frame_bytes",
        "meters",
        "on_closed",
        "on_drain",
        "peer",
        "produce_prefix",
        "produce_routes",
        "produced_bytes",
        "read_at_ms",
        "replies",
        "room",
        "session",
        "throttled_until_ms",
        "touched",
        "unanswered",
        "unread_since_ms",
        "unsent_bytes_before",
    )

    def __init__(self, listener: "BrokerListener", peer: Peer, now_ms: float) -> None:
        self.listener = listener
        self.peer = peer
        self.caller = anonymous_at(peer.address[0])
        self.session: SaslSession | None = None  # of a login by SASL
        self.replies: deque[Slot] = deque()
        self.room: memoryview | None = None
        self.touched = False
        self.closing = False
        self.active_at_ms = now_ms
        self.unsent_bytes_before = 0  # when the listener last looked for idle connections
        self.read_at_ms = now_ms  # the peer had read by then, as far as the listener has seen
        self.api_key = -1  # of the last request
        # The peer has not read since then what it had been sent by then.
        self.unread_since_ms = now_ms
        self.client_id = ""
        self.produce_prefix = 0
        self.on_closed: list[Callable[[], None]] = []
        self.on_drain: list[Callable[[], None]] = []
        self.long_frame_bytes = 0  # counted for the long request that holds this connection
        self.unanswered = 0  # requests that went through dispatch
        self.meters: ClientMeters | None = None  # of the client's quotas
        self.produced_bytes = 0  # of Produce requests that no quota has counted so far
        self.throttled_until_ms = 0.0  # 0 for a client within its quotas
        self._queued_bytes = 0  # given to the peer so far
        self._read_goal = 0  # of these, given by `unread_since_ms`
        self._owed_bytes = 0  # in their answers, as long as those wait for their turn
        self._paused = False
        self._halted = False  # handle nothing more: closing, held, or too much is unread
        self._holds = 0
        self._kept = memoryview(b"")  # bytes behind the request that halted
        self._going_on = False
        self._takes_turn = False  # one request, although the turn has done enough
        self._head = b""  # fewer than four bytes of a frame's size
        self._buffer: bytearray | None = None
        self._frame_bytes = 0
        self._frame_since_ms = 0.0  # when the frame under way began, or got memory again
        self._filled = 0

    @property
    def caller(self) -> Caller:
        return self._caller

    @caller.setter
    def caller(self, caller: Caller) -> None:
        """Set the principal of a login; the produce routes are those of the caller."""
        self._caller = caller
        self.produce_routes: list[dict[bytes, Any]] = self.listener.broker.produce_cache.routes_of(
            caller
        )

    # -- bytes in

    def received(self, data: memoryview) -> None:
        if self._head:
            data = memoryview(self._head + data)
            self._head = b""
        listener = self.listener
        self.active_at_ms = listener.now_ms()
        position, end = 0, len(data)
        listener.received_bytes += end
        if self.session is not None and end >= HEAD_BYTES and not self._admits(data):
            return
        size_max = listener.frame_bytes_max
        while end - position >= HEAD_BYTES:
            size, key, version, correlation_id = _HEAD.unpack_from(data, position)
            stop = position + 4 + size
            if size < 8 or size > size_max:
                self._reject_frame(size)
                return
            if stop > end:
                break
            self.api_key = key
            try:
                if key == PRODUCE:
                    produce(
                        listener.broker, self, data, position + 4, stop, version, correlation_id
                    )
                else:
                    if listener.broker.sliced_work.spent and not self._takes_turn:
                        self._wait_for_turn(data[position:])
                        return
                    self._takes_turn = False
                    dispatch(self, data[position + 4 : stop], key, version)
                    if self._is_full():
                        self._halted = True
            except Exception as error:
                failed(self, key, version, error)
            if self._halted:
                self._halt(data[stop:])
                return
            position = stop
        if position < end:
            self._keep(data[position:])
        if len(self.replies) > REPLIES_WAITING_MAX:
            self._pause()
        if self.produced_bytes:
            listener.broker.throttle.produced(self)

    def _admits(self, data: memoryview) -> bool:
        """Return whether the session admits the next request; close the connection if not."""
        key: int = _HEAD.unpack_from(data)[1]
        session = self.session
        if session is None or session.admits(key, self.active_at_ms):
            return True
        logins = self.listener.logins
        assert logins is not None, "a session began on a listener with logins"
        if session.exchange is None:
            logins.expired += 1
        name = APIS[key].name if key in APIS else f"API key {key}"
        self.reject(f"{name} after its session ended, or amid another login")
        return False

    def _is_full(self) -> bool:
        """Return whether the peer must read, or must get answers, before its next request."""
        unread = self._owed_bytes + self.peer.unsent_bytes
        return unread > UNSENT_BYTES_MAX or self.unanswered >= UNANSWERED_MAX

    def _halt(self, rest: memoryview) -> None:
        """Keep the rest of the received bytes for later, and read no further."""
        if self.closing:
            return
        self.listener.received_bytes -= len(rest)  # counted when handled
        # The buffer of a turn is valid until its end; bytes that were kept before are a copy.
        self._kept = rest if type(rest.obj) is bytes else memoryview(bytes(rest))
        self._pause()
        if self.produced_bytes:
            self.listener.broker.throttle.produced(self)

    def _wait_for_turn(self, rest: memoryview) -> None:
        """Handle the rest of the received bytes on a later turn."""
        self._halted = True
        self._halt(rest)
        if not self._going_on:
            self._going_on = True
            self.listener.broker.sliced_work.enqueue(self._take_turn(), self._last_request)

    def _take_turn(self) -> Work:
        self._takes_turn = True
        self._go_on()
        self._takes_turn = False
        yield None

    def hold(self) -> None:
        """Handle no further request of this connection before the matching `release`."""
        self._holds += 1
        self._halted = True

    def mute(self) -> None:
        """Read and handle nothing more before the matching `release`."""
        self.hold()
        self._pause()

    def release(self) -> None:
        self._holds -= 1
        if self.long_frame_bytes:
            self._maybe_leave_long_requests()
        if self._paused:
            self._maybe_resume()
        else:  # the request that asked for it is not over yet
            self._halted = self.closing or bool(self._holds) or self._is_full()

    def _maybe_leave_long_requests(self) -> None:
        """Give back the memory of a long request, unless its answer is large and unread."""
        unread = 0 if self.closing else self._owed_bytes + self.peer.unsent_bytes
        if self.long_frame_bytes and not self._holds and unread <= UNSENT_BYTES_MAX:
            self.listener.broker.long_requests.leave(self.long_frame_bytes)
            self.long_frame_bytes = 0

    @property
    def keeps_answer(self) -> bool:
        """Return whether the answer to a long request waits for the peer to read it."""
        return bool(self.long_frame_bytes) and not self._holds

    def _go_on(self) -> None:
        self._going_on = False
        if self.closing or self.listener.draining:
            return
        self._halted = bool(self._holds)
        if self._halted:
            return
        if self._buffer is not None and self.room is None:
            self._handle_frame()
            self.listener.broker.touch()
        else:
            kept, self._kept = self._kept, memoryview(b"")
            self.received(kept)
        self._maybe_resume()

    def _keep(self, rest: memoryview) -> None:
        """Copy the start of an incomplete frame to a buffer, where the rest will follow. Reject a
        frame of an invalid size."""
        if len(rest) < 4:
            self._head = bytes(rest)
            self.listener.received_bytes -= len(rest)  # they come again with what follows
            return
        size = _SIZE.unpack_from(rest)[0]
        if size < 8 or size > self.listener.frame_bytes_max:
            self._reject_frame(size)
            return
        self._frame_bytes = size
        self._frame_since_ms = self.active_at_ms
        self._filled = len(rest) - 4
        self._buffer = self.listener.frames.first(size, self._filled)
        self._buffer[: self._filled] = rest[4:]
        self._make_room()

    def _make_room(self) -> None:
        assert self._buffer is not None, "room is made inside a frame"
        if self._filled == len(self._buffer) < self._frame_bytes:
            pool = self.listener.frames
            larger = pool.grow(self, self._buffer, self._frame_bytes, self._room_again)
            if larger is None:
                self.room = memoryview(b"")  # nothing is read until there is some
                self._pause()
                return
            self._buffer = larger
        end = min(self._frame_bytes, len(self._buffer))
        self.room = memoryview(self._buffer)[self._filled : end]

    def _room_again(self) -> None:
        """Go on with a frame: the node has memory for the rest now."""
        self._frame_since_ms = self.listener.now_ms()
        self._make_room()
        self._maybe_resume()

    @property
    def memory_since_ms(self) -> float:
        """Return since when a frame under way has had more than its first memory; inf if none
        has."""
        has_more = self._buffer is not None and len(self._buffer) > FIRST_BYTES
        return self._frame_since_ms if has_more else inf

    def slow_since_ms(self, now_ms: float) -> float:
        """Return since when the peer sends one frame, or reads what it had been sent by then."""
        if self._queued_bytes - self.peer.unsent_bytes >= self._read_goal:
            self._read_goal = self._queued_bytes
            self.unread_since_ms = now_ms
        if self._buffer is None or self._paused:
            return self.unread_since_ms
        return min(self.unread_since_ms, self._frame_since_ms)

    def filled(self, size: int) -> None:
        self._filled += size
        self.listener.received_bytes += size
        self.active_at_ms = self.listener.now_ms()
        if self._filled < self._frame_bytes:
            self._make_room()
            return
        self.room = None
        self._handle_frame()
        self.listener.broker.touch()

    def _handle_frame(self) -> None:
        """Handle a frame that came in parts, or leave it for a later turn."""
        buffer, size = self._buffer, self._frame_bytes
        assert buffer is not None, "only a frame under way is filled"
        frame = memoryview(buffer)[:size]
        head = memoryview(b"\0\0\0\0" + frame[:8])
        key, version, correlation_id = _HEAD.unpack_from(head)[1:]
        self.api_key = key
        broker = self.listener.broker
        if key != PRODUCE and broker.sliced_work.spent and not self._takes_turn:
            self._wait_for_turn(memoryview(b""))
            return
        self._takes_turn = False
        self._buffer = None
        if self.session is not None and not self._admits(head):
            self.listener.frames.give_back(self, buffer)
            return
        try:
            if key == PRODUCE:
                produce(broker, self, frame, 0, size, version, correlation_id)
            else:
                dispatch(self, frame, key, version)
                if self._is_full():
                    self._halted = True
        except Exception as error:
            failed(self, key, version, error)
        self.listener.frames.give_back(self, buffer)
        if self.produced_bytes:
            broker.throttle.produced(self)
        if self._halted:
            self._halt(memoryview(b""))

    def describe(self) -> str:
        """Return the last request, for the log line of a slow call."""
        host, port = self.peer.address
        return f"{self._last_request} of the client {self.client_id!r} at {host}:{port}"

    @property
    def _last_request(self) -> str:
        return APIS[self.api_key].name if self.api_key in APIS else "a request"

    # -- replies out

    def take_slot(self) -> Slot:
        slot: Slot = [None]
        self.replies.append(slot)
        return slot

    def fill(self, slot: Slot, answer: Answer) -> None:
        """Fill a slot; the answer leaves at the end of the turn, after all answers before it."""
        slot[0] = answer
        if not self.touched:
            self.touch()

    def answer(self, slot: Slot, answer: Answer) -> None:
        """Fill the slot of a request that went through dispatch."""
        self.unanswered -= 1
        if not self.closing:
            self._owed_bytes += _frame_bytes(answer)
            self.fill(slot, answer)

    def touch(self) -> None:
        self.touched = True
        self.listener.broker.touch_connection(self)

    def flush(self) -> None:
        """Send the filled slots at the front. Called once per turn and connection."""
        self.touched = False
        replies = self.replies
        frames: list[bytes] = []
        while replies and (answer := replies[0][0]) is not None:
            replies.popleft()
            if type(answer) is bytes:
                frames.append(answer)
                continue
            if frames:
                self._send_joined(frames)
                frames = []
            self._count_sent(_frame_bytes(answer))
            self.peer.send(answer)  # type: ignore[arg-type]  # parts, not bytes
        if frames:
            self._send_joined(frames)
        if self._owed_bytes:
            waiting = (slot[0] for slot in replies)
            self._owed_bytes = sum(_frame_bytes(answer) for answer in waiting if answer is not None)
        if self.long_frame_bytes:
            self._maybe_leave_long_requests()
        if self.closing and not replies:
            self.peer.close()
        elif self.peer.unsent_bytes > UNSENT_BYTES_MAX:
            self._pause()
        elif self._paused:
            self._maybe_resume()

    def _send_joined(self, frames: list[bytes]) -> None:
        data = b"".join(frames)
        self._count_sent(len(data))
        self.peer.send((data,))

    def _count_sent(self, size: int) -> None:
        self._queued_bytes += size
        self.listener.sent_bytes += size

    def sent(self) -> None:
        if self.long_frame_bytes:
            self._maybe_leave_long_requests()
        if self._paused:
            self._maybe_resume()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self.peer.pause()

    def _maybe_resume(self) -> None:
        if (
            not self._paused
            or self.closing
            or self.listener.draining
            or len(self.replies) > REPLIES_WAITING_MAX // 2
            or self._owed_bytes + self.peer.unsent_bytes > UNSENT_BYTES_MAX // 2
            or self.listener.frames.is_waiting(self)
        ):
            return
        if not self._halted:
            self._paused = False
            self.peer.resume()
        elif not self._holds and self.unanswered < UNANSWERED_MAX and not self._going_on:
            # On a turn of its own: this may be the end of one, when nothing new may begin.
            self._going_on = True
            self.listener.broker.world.timers.soon(self._go_on)

    # -- ending

    def drain(self) -> None:
        """Read no further; answer long polls now, with the records found so far."""
        self._pause()
        for call in list(self.on_drain):
            call()

    def _reject_frame(self, size: int) -> None:
        """Close the connection of a peer whose first bytes are no size of a request."""
        listener = self.listener
        spoken = other_protocol(size)
        if spoken:
            self.reject(f"{spoken}; the listener {listener.name} speaks {listener.protocol}")
        else:
            limit = listener.frame_bytes_max
            self.reject(f"a frame of {size} bytes (socket.request.max.bytes is {limit})")

    def reject(self, reason: str) -> None:
        """Close the connection of a peer that breaks the protocol: no schema fits an answer."""
        self.listener.broker.rejections.protocol_error(self.peer.address, reason)
        self.close()

    def close(self) -> None:
        self._end()
        self.peer.close()

    def close_answered(self) -> None:
        """Send the answers that are there, and close."""
        self.flush()
        self.close()

    def _end(self) -> None:
        self.closing = self._halted = True
        self.replies.clear()
        self._kept = memoryview(b"")

    def closed(self) -> None:
        self._end()
        if self._buffer is not None:
            self.listener.frames.give_back(self, self._buffer)
            self._buffer = self.room = None
            self.listener.broker.touch()
        self._maybe_leave_long_requests()
        self.listener.forget(self)


def _frame_bytes(answer: Answer) -> int:
    """Return the size of a frame, file ranges included."""
    if type(answer) is bytes:
        return len(answer)
    size: int = _SIZE.unpack_from(answer[0])[0]  # type: ignore[arg-type]  # an answer begins with its head
    return 4 + size
