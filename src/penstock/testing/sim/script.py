"""Clients of a simulation that are written down as scripts: one thing after the other.

A script is a generator. It yields what it asks for (`Ask`) and is sent the response, or None if
none came: the connection broke, or its patience was at an end. In between it may `Pause`.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from penstock.testing.sim.client import METADATA, METADATA_VERSION, SimClient
from penstock.testing.sim.world import Simulation
from penstock.wire.messages import k03_metadata, k10_find_coordinator

T = TypeVar("T")

FIND_COORDINATOR = 10
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
# Longer than a node needs to stop, and than a rebalance may take here.
PATIENCE_MS = 8_000.0


class Ask:
    """A request. `speaker` says who asks, to those who judge it; `copies` counts how often it was
    sent besides: it may have taken effect although its sender was refused."""

    __slots__ = ("copies", "key", "message", "speaker", "version")

    def __init__(self, key: int, version: int, message: Any, speaker: Any = None) -> None:
        self.key = key
        self.version = version
        self.message = message
        self.speaker = speaker
        self.copies = 0


class Pause(NamedTuple):
    duration_ms: float


Script: TypeAlias = Generator[Ask | Pause, Any, T]


class TopicFacts(NamedTuple):
    topic_id: bytes
    partitions: int


class ScriptedClient(SimClient):
    """Follows its script from its first connection on; `finished` when that is at its end."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: tuple[str, int],
        overheard: "Callable[[ScriptedClient, Ask], None] | None" = None,
    ) -> None:
        """`overheard` is told of every request before it is sent."""
        super().__init__(simulation, name, node)
        self.finished = False
        self.dead = False
        self._overheard = overheard
        self._script: Script[None] | None = None
        self._ask: Ask | None = None  # without a response so far
        self._sent = False
        self._steps = 0  # tells the responses of this step from those of an earlier one

    @abstractmethod
    def script(self) -> Script[None]:
        """Everything that it does, in order."""

    def die(self) -> Ask | None:
        """At this very moment; the request that nobody waits for any more, if it was sent."""
        self.dead = self.finished = self.stopped = True
        self._steps += 1
        if self._script is not None:
            self._script.close()
        self.world.kill()
        return self._ask if self._sent else None

    # -- following the script

    def connected(self) -> None:
        if self._script is None:
            self._script = self.script()
            self._go_on(None)
        elif self._ask is not None:
            self._send(self._ask)

    def _go_on(self, response: Any) -> None:
        assert self._script is not None, "a script is gone on with once it has begun"
        self._ask = None
        self._sent = False
        self._steps += 1
        try:
            step = self._script.send(response)
        except StopIteration:
            self.finished = True
            self._hang_up()
            return
        if isinstance(step, Pause):
            self._at(step.duration_ms, lambda: self._go_on(None))
        else:
            self._ask = step
            if self.link is not None:
                self._send(step)

    def _send(self, ask: Ask) -> None:
        steps = self._steps

        def answered(response: Any) -> None:
            if steps == self._steps:
                self._go_on(response)

        assert self.link is not None, "what is asked for needs a connection"
        if self._overheard is not None:
            self._overheard(self, ask)
        self._sent = True
        self.link.request(ask.key, ask.version, ask.message, answered)
        self._at(PATIENCE_MS, self._give_up)

    def _give_up(self) -> None:
        if self.link is not None:
            self.link.peer.close()

    def _at(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Later, if the script has not moved on by then."""
        steps = self._steps

        def due() -> None:
            if steps == self._steps:
                call()

        self.world.timers.at(self.world.clock.mono_ms() + delay_ms, due)

    def _hang_up(self) -> None:
        self.stop()
        if self.link is not None:
            self.link.peer.close()

    # -- what many scripts need

    def pause(self, low_ms: float, high_ms: float) -> Pause:
        return Pause(self.chance.uniform(low_ms, high_ms))

    def topics(self, names: Iterable[str]) -> Script[dict[str, TopicFacts]]:
        """Ask until these are there."""
        wanted = [k03_metadata.MetadataRequestTopic(name=name) for name in names]
        message = k03_metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        while True:
            response = yield Ask(METADATA, METADATA_VERSION, message)
            if response is not None and all(
                not each.error_code and each.partitions for each in response.topics
            ):
                return {
                    each.name: TopicFacts(each.topic_id, len(each.partitions))
                    for each in response.topics
                }
            yield self.pause(5.0, 60.0)

    def coordinator(self, kind: int, name: str) -> Script[None]:
        """Ask until there is one; in a cluster of one it is the node that everybody speaks to."""
        version = self.chance.choice((1, 2, 3, 4, 5, 6))
        message = k10_find_coordinator.FindCoordinatorRequest(
            key=name, key_type=kind, coordinator_keys=[name]
        )
        while True:
            response = yield Ask(FIND_COORDINATOR, version, message)
            if response is not None:
                found = response.coordinators[0] if version >= 4 else response
                if not found.error_code:
                    return
            yield self.pause(5.0, 60.0)
