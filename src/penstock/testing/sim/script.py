"""Scripted clients of a simulation: one step after the other.

A script is a generator. It yields requests (`Ask`) and receives the response, or None after a
broken connection or a timeout. In between it may yield a `ScriptPause`.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.testing.sim.client import METADATA, METADATA_VERSION, SimClient
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.messages import k03_metadata, k10_find_coordinator

T = TypeVar("T")

FIND_COORDINATOR = 10
GROUP, TRANSACTION = 0, 1  # coordinator types
# Longer than a node's stop, and than a rebalance here.
PATIENCE_MS = 8_000.0


class Ask:
    """A request. `speaker` identifies the sender for the checks. `repetitions` counts further
    sends: the request may have taken effect although its sender was rejected."""

    __slots__ = ("key", "message", "repetitions", "speaker", "version")

    def __init__(self, key: int, version: int, message: Any, speaker: Any = None) -> None:
        self.key = key
        self.version = version
        self.message = message
        self.speaker = speaker
        self.repetitions = 0


class ScriptPause(NamedTuple):
    duration_ms: float


Script: TypeAlias = Generator[Ask | ScriptPause, Any, T]


class TopicFacts(NamedTuple):
    topic_id: bytes
    partitions: int


class ScriptOwner(Protocol):
    """A client, as the scripts of transactions and groups see it."""

    name: str
    chance: Random
    world: SimWorld

    def pause(self, low_ms: float, high_ms: float) -> ScriptPause: ...


class ScriptedClient(SimClient):
    """Runs its script from its first connection on; `finished` at its end."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: tuple[str, int],
        overheard: "Callable[[ScriptedClient, Ask], None] | None" = None,
    ) -> None:
        """Make a client without a script. `overheard` receives every request before it is sent."""
        super().__init__(simulation, name, node)
        self.finished = False
        self.dead = False
        self._overheard = overheard
        self._script: Script[None] | None = None
        self._ask: Ask | None = None  # the request without a response so far
        self._sent = False
        self._steps = 0  # separates the responses of this step from earlier ones

    @abstractmethod
    def script(self) -> Script[None]:
        """Yield all steps, in order."""

    def die(self) -> Ask | None:
        """Stop at this moment; return the unanswered request, if it was sent."""
        self.dead = self.finished = self.stopped = True
        self._steps += 1
        if self._script is not None:
            self._script.close()
        self.world.kill()
        return self._ask if self._sent else None

    # -- execution

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
        if isinstance(step, ScriptPause):
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
        """Call later, if the script has not advanced by then."""
        steps = self._steps

        def due() -> None:
            if steps == self._steps:
                call()

        self.world.timers.at(self.world.clock.mono_ms() + delay_ms, due)

    def _hang_up(self) -> None:
        self.stop()
        if self.link is not None:
            self.link.peer.close()

    # -- steps of many scripts

    def pause(self, low_ms: float, high_ms: float) -> ScriptPause:
        return ScriptPause(self.chance.uniform(low_ms, high_ms))

    def topics(self, names: Iterable[str]) -> Script[dict[str, TopicFacts]]:
        """Ask until these topics exist."""
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
        """Ask until there is a coordinator; in a cluster of one node it is that node."""
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
