"""A node's side of one connection whose requests a test may intercept.

Without an interception nothing differs. Otherwise frames are handled one by one: passing ones go to
the broker's own connection, the others are answered here, in the order of the requests. A delayed
request is kept with all later ones.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

from penstock.broker.network.connection import HEAD_BYTES, BrokerConnection
from penstock.broker.network.dispatch import serves
from penstock.testing.intercepting.actions import (
    Delay,
    Drop,
    Fail,
    InterceptedRequest,
    Pass,
    Silence,
)
from penstock.testing.intercepting.taps import Decided, Taps
from penstock.wire.apis import APIS
from penstock.wire.frame import response_frame
from penstock.wire.primitives import Malformed
from penstock.world import Peer

if TYPE_CHECKING:
    from penstock.broker.network.listener import BrokerListener

_SIZE = Struct(">i")
_HEAD = Struct(">ihhi")


def tapped(taps: Taps) -> "Callable[[BrokerListener, Peer, float], BrokerConnection]":
    """Return the function with which a listener makes connections that pass through `taps`."""

    def connect(listener: "BrokerListener", peer: Peer, now_ms: float) -> BrokerConnection:
        return TappedConnection(taps, listener, peer, now_ms)

    return connect


class TappedConnection(BrokerConnection):
    """All calls happen on the node's loop."""

    __slots__ = ("_taps", "_waited")

    def __init__(self, taps: Taps, listener: "BrokerListener", peer: Peer, now_ms: float) -> None:
        super().__init__(listener, peer, now_ms)
        self._taps = taps
        self._waited: Decided | None = None  # for the first of the kept requests

    def received(self, data: memoryview) -> None:
        if not self._taps.any and self._waited is None:
            super().received(data)
            return
        if self._head:
            data = memoryview(self._head + data)
            self._head = b""
        position, end = 0, len(data)
        size_max = self.listener.frame_bytes_max
        while end - position >= HEAD_BYTES:
            size, key, version, _correlation_id = _HEAD.unpack_from(data, position)
            stop = position + _SIZE.size + size
            if size < HEAD_BYTES - _SIZE.size or size > size_max or stop > end:
                break  # incomplete or invalid: the broker handles it
            if not self._handle(data[position:stop], key, version):
                stop = position  # delivered again later, with the frames behind it
            if self.closing:
                return
            if self._halted:
                self.listener.received_bytes += end - stop  # which `_halt` subtracts
                self._halt(data[stop:])
                return
            position = stop
        if position < end:
            super().received(data[position:])

    def filled(self, size: int) -> None:
        frame_bytes = self._frame_bytes
        if not self._taps.any or self._filled + size < frame_bytes:
            super().filled(size)
            return
        buffer = self._buffer
        assert buffer is not None, "only a frame under way is filled"
        whole = _SIZE.pack(frame_bytes) + memoryview(buffer)[:frame_bytes]
        self._buffer = self.room = None
        self.listener.frames.give_back(self, buffer)
        self.listener.received_bytes += size - len(whole)  # counted when they are handled
        self.listener.broker.touch()
        self.received(memoryview(whole))

    # -- one request

    def _handle(self, whole: memoryview, key: int, version: int) -> bool:
        """Handle one frame, its size included. Return False if it has to wait."""
        decided = self._waited or self._decide(whole, key, version)
        self._waited = None
        if decided is None:
            super().received(whole)
            return True
        match decided.action:
            case Pass():
                super().received(whole)
            case Fail() as fail:
                self._fail(whole, decided, fail)
            case Delay(seconds, then):
                self._waited = decided._replace(action=then)
                self._owe()
                at = self.listener.now_ms() + seconds * 1000
                self.listener.broker.world.timers.at(at, self._go_on_after_delay)
                return False
            case Silence(handled):
                self._lose_answer(whole) if handled else self._took(whole)
                self._owe()
            case Drop(handled):
                super().received(whole) if handled else self._took(whole)
                self.close()
        return True

    def _owe(self) -> None:
        """Handle nothing more on this connection, which waits for a response meanwhile, so it is
        not idle. A stopping node does not wait for it."""
        self.hold()
        self.take_slot()
        self.on_drain.append(self._owe_no_more)

    def _owe_no_more(self) -> None:
        self.on_drain.remove(self._owe_no_more)
        if self.replies:
            self.replies.pop()  # no later reply can exist

    def _go_on_after_delay(self) -> None:
        if not self.closing and self._owe_no_more in self.on_drain:
            self._owe_no_more()
            self.release()

    def _decide(self, whole: memoryview, key: int, version: int) -> Decided | None:
        if not serves(self.listener.kind, key) or not APIS[key].has(version):
            return None
        node_id, address = self.listener.broker.node_id, self.peer.address
        try:
            return self._taps.decide(
                key, lambda: InterceptedRequest(bytes(whole[_SIZE.size :]), node_id, address)
            )
        except Malformed:
            return None  # the broker reports the error itself

    def _took(self, whole: memoryview) -> None:
        """Note a frame as the broker's own connection does."""
        self.active_at_ms = self.listener.now_ms()
        self.listener.received_bytes += len(whole)

    def _fail(self, whole: memoryview, decided: Decided, fail: Fail) -> None:
        from penstock.testing.intercepting.broker_answers import failed_answer

        request = decided.request
        try:
            response = failed_answer(self.listener, request, fail.exception())
        except Malformed:
            super().received(whole)
            return
        except Exception as error:  # the test's function returned an invalid error
            decided.interception.failed(error)
            self.close()
            return
        self._took(whole)
        if response is None:  # acks=0 has no response: a broker closes the connection instead
            self.close()
            return
        frame = response_frame(request.api_key, request.version, request.correlation_id, response)
        self.fill(self.take_slot(), frame)

    def _lose_answer(self, whole: memoryview) -> None:
        before = len(self.replies)
        super().received(whole)
        if len(self.replies) > before:
            self.replies.pop()  # later filled, and never sent
