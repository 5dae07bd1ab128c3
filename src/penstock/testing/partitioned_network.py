"""The network of a node in this process, which a test can partition.

Nodes connect to each other; clients are never cut off. A connection between two sides goes silent
in both directions and its bytes wait, as those of TCP do. An attempt to connect gets no answer.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from penstock.config.local_nodes import LocalNode
from penstock.real.network import SocketNetwork
from penstock.real.outbound import CONNECT_MS_MAX
from penstock.world import Connecting, Part, Peer, Receiver, TlsSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.real.loop import Loop

NodeAddress = tuple[str, int]


class PartitionedPeer:
    """A connection to another node (world.Peer). While it is cut, nothing is read or sent, and the
    other node hears nothing of its end."""

    def __init__(self, peer: Peer, network: "PartitionedNetwork") -> None:
        self._peer = peer
        self._network = network
        self._unsent: list[Part] = []
        self._is_cut = False
        self._is_paused = False
        self._end: Callable[[], None] | None = None  # waits until the network heals
        self.address = peer.address
        self.identity = peer.identity

    @property
    def unsent_bytes(self) -> int:
        return self._peer.unsent_bytes

    def send(self, parts: "Sequence[Part]") -> None:
        if self._is_cut:
            self._unsent.extend(parts)
        else:
            self._peer.send(parts)

    def hand_over(self, receiver: Receiver) -> None:
        self._peer.hand_over(receiver)

    def pause(self) -> None:
        self._is_paused = True
        self._peer.pause()

    def resume(self) -> None:
        self._is_paused = False
        if not self._is_cut:
            self._peer.resume()

    def has_ended(self) -> bool:
        return not self._is_cut and self._peer.has_ended()

    def finish(self) -> None:
        self._end_by(self._peer.finish)

    def close(self) -> None:
        self._end_by(self._close)

    def _end_by(self, end: Callable[[], None]) -> None:
        if self._is_cut:
            self._end = end
        else:
            end()

    def _close(self) -> None:
        self._network.forget(self)
        self._peer.close()

    def cut(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._peer.pause()

    def mend(self) -> None:
        """Send what waits, then read again, or end."""
        if self._is_cut:
            self._is_cut = False
            unsent, self._unsent = self._unsent, []
            if unsent:
                self._peer.send(unsent)
            end, self._end = self._end, None
            if end is not None:
                end()
            elif not self._is_paused:
                self._peer.resume()


class WaitingAttempt:
    """An attempt to connect through a partition. `go_on` follows when the network heals; a failure
    when its time is over."""

    def __init__(
        self,
        network: "PartitionedNetwork",
        address: NodeAddress,
        connect: Callable[[float], Connecting],
        failed: Callable[[str], None],
        timeout_ms: float,
    ) -> None:
        """Wait; `connect` begins an attempt with the time that is left."""
        self.address = address
        self._network = network
        self._connect = connect
        self._until_ms = network.clock.mono_ms() + timeout_ms
        self._begun: Connecting | None = None
        reason = f"no connection within {timeout_ms:.0f} ms"
        self._timer = network.clock.at(self._until_ms, lambda: self._fail(failed, reason))

    def go_on(self) -> None:
        self._stop_waiting()
        self._begun = self._connect(max(0.0, self._until_ms - self._network.clock.mono_ms()))

    def cancel(self) -> None:
        self._stop_waiting()
        if self._begun is not None:
            self._begun.cancel()

    def _fail(self, failed: Callable[[str], None], reason: str) -> None:
        self._stop_waiting()
        failed(reason)

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        self._network.waiting.pop(self, None)


class PartitionedNetwork(SocketNetwork):
    """Sockets. `cut` tells to which addresses no byte gets."""

    def __init__(self, loop: "Loop", addresses: Collection[NodeAddress] = ()) -> None:
        """Begin; `addresses` cannot be reached from the start."""
        super().__init__(loop)
        self.clock = loop
        self.waiting: dict[WaitingAttempt, None] = {}
        self._cut = frozenset(addresses)
        self._peers: dict[PartitionedPeer, None] = {}

    def connect(
        self,
        host: str,
        port: int,
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        timeout_ms: float = CONNECT_MS_MAX,
        tls: TlsSettings | None = None,
    ) -> Connecting:
        def opened_here(peer: Peer) -> Receiver:
            made = PartitionedPeer(peer, self)
            self._peers[made] = None
            if made.address in self._cut:
                made.cut()
            return opened(made)

        def connect(left_ms: float) -> Connecting:
            return SocketNetwork.connect(self, host, port, opened_here, failed, left_ms, tls)

        if (host, port) not in self._cut:
            return connect(timeout_ms)
        waiting = WaitingAttempt(self, (host, port), connect, failed, timeout_ms)
        self.waiting[waiting] = None
        return waiting

    def forget(self, peer: PartitionedPeer) -> None:
        self._peers.pop(peer, None)

    def cut(self, addresses: Collection[NodeAddress]) -> None:
        """Cut connections to these addresses, and mend all others. Runs on the loop."""
        self._cut = frozenset(addresses)
        for peer in list(self._peers):
            if peer.address in self._cut:
                peer.cut()
            else:
                peer.mend()
        for attempt in list(self.waiting):
            if attempt.address not in self._cut:
                attempt.go_on()


def addresses_to_cut(
    members: Mapping[int, LocalNode], sides: Collection[Collection[int]]
) -> dict[int, frozenset[NodeAddress]]:
    """Return the addresses of other nodes that each node cannot reach. Raise ValueError for a node
    that does not exist or is on two sides."""
    numbers = [number for side in sides for number in side]
    for number in numbers:
        if number not in members:
            known = ", ".join(map(str, members)) or "only one"
            raise ValueError(f"this cluster has no node {number} to partition; there is {known}")
        if numbers.count(number) > 1:
            raise ValueError(f"node {number} is on two sides")
    return {
        number: frozenset(
            (address.host, address.port)
            for other in numbers
            if other not in side
            for address in (members[other].client, members[other].controller)
            if address is not None
        )
        for side in sides
        for number in side
    }
