"""The life of a broker at its controller as a pure machine: results and the time in, actions out.

A broker registers, reads the metadata up to its registration, opens its logs, and is unfenced by a
heartbeat. From then on heartbeats keep it alive. A broker that its controller no longer knows
registers again. Before a stop it asks to hand over its leaderships.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from penstock.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    KafkaError,
    NotController,
    StaleBrokerEpoch,
    UnsupportedVersion,
)

FOREVER = float("inf")
RETRY_MS_MIN, RETRY_MS_MAX = 100, 1_000
NO_EPOCH = -1
# A controller that answers so will not change its mind.
FINAL_REJECTIONS = (InconsistentClusterId, InvalidRegistration, UnsupportedVersion)


class BrokerPhase(Enum):
    REGISTERING = auto()
    FENCED = auto()  # registered; the logs are opened, or the controller has fenced this broker
    SERVING = auto()
    LEAVING = auto()  # leaderships are handed over
    GONE = auto()


class SendRegistration(NamedTuple):
    """Register with the active controller; the result comes to `registered`."""


class SendHeartbeat(NamedTuple):
    """Send a heartbeat; the result comes to `heard`."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool


class BrokerRegistered(NamedTuple):
    """The controller knows this life of the broker by this epoch."""

    broker_epoch: int


class BrokerUnfenced(NamedTuple):
    """Clients may be served."""


class BrokerLeft(NamedTuple):
    """The broker leads nothing any more, or no controller will say so: the node may stop."""

    complete: bool


class RegistrationFailed(NamedTuple):
    """The node cannot take part in the cluster."""

    reason: str


LifecycleAction = (
    SendRegistration
    | SendHeartbeat
    | BrokerRegistered
    | BrokerUnfenced
    | BrokerLeft
    | RegistrationFailed
)


class HeartbeatReply(NamedTuple):
    """The answer to a heartbeat."""

    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """broker.heartbeat.interval.ms, initial.broker.registration.timeout.ms, and the limits of a
    controlled shutdown: with a controller that answers, and without one. `controllers` are the
    addresses of the quorum, with the key that names them."""

    heartbeat_interval_ms: int = 2_000
    registration_timeout_ms: int = 60_000
    leaving_ms_max: int = 30_000
    leaving_unheard_ms_max: int = 2_000
    controllers: str = ""


class BrokerLifecycle:
    """One broker from its start to its end. Every method returns the actions that follow."""

    def __init__(self, settings: LifecycleSettings) -> None:
        self._settings = settings
        self.phase = BrokerPhase.REGISTERING
        self.broker_epoch = NO_EPOCH
        self.wake_up_ms = FOREVER
        self._asking = False  # a registration or a heartbeat has no result so far
        self._is_urgent = False  # the next one follows without a pause
        self._is_ready = False  # the logs are open
        self._failures = 0
        self._give_up_ms = FOREVER  # the end of a registration without success
        self._leaving_until_ms = FOREVER
        self._heard_ms = 0.0  # the last answer of a controller

    def start(self, now_ms: float) -> list[LifecycleAction]:
        return self._register(now_ms)

    def registered(self, result: int | Exception, now_ms: float) -> list[LifecycleAction]:
        """Note the epoch of a registration, or its failure."""
        self._asking = False
        if self.phase is BrokerPhase.LEAVING:
            return self._leave(complete=False)
        if self.phase is not BrokerPhase.REGISTERING:
            return []
        if isinstance(result, Exception):
            return self._retry_registration(result, now_ms)
        is_new = result != self.broker_epoch
        self.broker_epoch = result
        self._failures = 0
        self._heard_ms = now_ms
        self.phase = BrokerPhase.FENCED
        actions: list[LifecycleAction] = [BrokerRegistered(result)] if is_new else []
        return actions + self._beat()

    def register_again(self, now_ms: float) -> list[LifecycleAction]:
        """Register although the controller knows the broker: as another incarnation."""
        if self.phase is not BrokerPhase.FENCED:
            return []  # a registration is under way, or none will follow
        self.phase = BrokerPhase.REGISTERING
        return self._register(now_ms)

    def opened(self, now_ms: float) -> list[LifecycleAction]:
        """Note that the logs are open: the broker can serve."""
        self._is_ready = True
        return self.hurry(now_ms)

    def heard(self, result: HeartbeatReply | Exception, now_ms: float) -> list[LifecycleAction]:
        """Note the answer to a heartbeat, or its failure."""
        self._asking = False
        if self.phase is BrokerPhase.GONE:
            return []
        if isinstance(result, Exception):
            return self._missed(result, now_ms)
        self._failures = 0
        self._heard_ms = now_ms
        if self.phase is BrokerPhase.LEAVING:
            if result.should_shut_down:
                return self._leave(complete=True)
            return self._wait(RETRY_MS_MIN, now_ms)
        if result.is_fenced:
            self.phase = BrokerPhase.FENCED
            return self._wait(self._fenced_interval_ms, now_ms)
        actions: list[LifecycleAction] = []
        if self.phase is not BrokerPhase.SERVING:
            self.phase = BrokerPhase.SERVING
            actions.append(BrokerUnfenced())
        return actions + self._wait(self._settings.heartbeat_interval_ms, now_ms)

    def hurry(self, now_ms: float) -> list[LifecycleAction]:
        """Send what is due without waiting for the interval: something has changed."""
        if self.phase is BrokerPhase.GONE:
            return []
        if self._asking:
            self._is_urgent = True
            return []
        return self._send(now_ms)

    def stop(self, now_ms: float) -> list[LifecycleAction]:
        """Begin to leave; BrokerLeft follows."""
        if self.phase in (BrokerPhase.LEAVING, BrokerPhase.GONE):
            return []
        was_serving = self.phase is BrokerPhase.SERVING
        self.phase = BrokerPhase.LEAVING
        self._leaving_until_ms = now_ms + self._settings.leaving_ms_max
        self._heard_ms = now_ms
        if not was_serving:
            return self._leave(complete=False)
        self.wake_up_ms = self._leaving_limit_ms
        return self.hurry(now_ms)

    def time_passed(self, now_ms: float) -> list[LifecycleAction]:
        """Do what is due at `wake_up_ms`."""
        if now_ms < self.wake_up_ms:
            return []
        if self.phase is BrokerPhase.LEAVING and now_ms >= self._leaving_limit_ms:
            return self._leave(complete=False)
        return [] if self._asking else self._send(now_ms)

    # -- steps

    @property
    def _fenced_interval_ms(self) -> int:
        """Return the pause between heartbeats of a fenced broker; one that could serve hurries."""
        interval_ms = self._settings.heartbeat_interval_ms
        return min(RETRY_MS_MIN, interval_ms) if self._is_ready else interval_ms

    @property
    def _leaving_limit_ms(self) -> float:
        unheard_ms = self._heard_ms + self._settings.leaving_unheard_ms_max
        return min(unheard_ms, self._leaving_until_ms)

    def _send(self, now_ms: float) -> list[LifecycleAction]:
        return self._register(now_ms) if self.phase is BrokerPhase.REGISTERING else self._beat()

    def _register(self, now_ms: float) -> list[LifecycleAction]:
        if self._give_up_ms == FOREVER:
            self._give_up_ms = now_ms + self._settings.registration_timeout_ms
        self._begin_asking()
        return [SendRegistration()]

    def _beat(self) -> list[LifecycleAction]:
        self._give_up_ms = FOREVER
        self._begin_asking()
        leaves = self.phase is BrokerPhase.LEAVING
        return [SendHeartbeat(self.broker_epoch, not self._is_ready and not leaves, leaves)]

    def _begin_asking(self) -> None:
        """Wait for a result without a deadline; the stop of a broker has one."""
        self._asking = True
        self._is_urgent = False
        leaves = self.phase is BrokerPhase.LEAVING
        self.wake_up_ms = self._leaving_limit_ms if leaves else FOREVER

    def _retry_registration(self, failure: Exception, now_ms: float) -> list[LifecycleAction]:
        if isinstance(failure, FINAL_REJECTIONS) or now_ms >= self._give_up_ms:
            self.phase = BrokerPhase.GONE
            self.wake_up_ms = FOREVER
            return [RegistrationFailed(_explain(failure, self._settings))]
        return self._wait(self._backoff_ms(failure), now_ms)

    def _missed(self, failure: Exception, now_ms: float) -> list[LifecycleAction]:
        """Try again after a heartbeat without an answer, or register again."""
        if isinstance(failure, KafkaError) and not isinstance(failure, NotController):
            self._heard_ms = now_ms
        if isinstance(failure, StaleBrokerEpoch | BrokerIdNotRegistered):
            if self.phase is BrokerPhase.LEAVING:
                return self._leave(complete=False)
            self.phase = BrokerPhase.REGISTERING
            self._failures = 0
            return self._register(now_ms)
        return self._wait(self._backoff_ms(failure), now_ms)

    def _backoff_ms(self, failure: Exception) -> int:
        """Return the pause before the next attempt, longer after each failure of a controller."""
        if isinstance(failure, NotController):
            return RETRY_MS_MIN
        self._failures += 1
        longest_ms = max(RETRY_MS_MIN, min(RETRY_MS_MAX, self._settings.heartbeat_interval_ms))
        return min(longest_ms, RETRY_MS_MIN << min(self._failures - 1, 8))

    def _wait(self, delay_ms: float, now_ms: float) -> list[LifecycleAction]:
        if self._is_urgent:
            return self._send(now_ms)
        self.wake_up_ms = now_ms + delay_ms
        if self.phase is BrokerPhase.LEAVING:
            self.wake_up_ms = min(self.wake_up_ms, self._leaving_limit_ms)
        return []

    def _leave(self, *, complete: bool) -> list[LifecycleAction]:
        self.phase = BrokerPhase.GONE
        self.wake_up_ms = FOREVER
        return [BrokerLeft(complete)]


def _explain(failure: Exception, settings: LifecycleSettings) -> str:
    text = failure.message if isinstance(failure, KafkaError) else str(failure)
    if isinstance(failure, DuplicateBrokerRegistration):
        return (
            f"Another running node has the id of this one: {text.rstrip('.')}. Give each node its "
            "own node.id, or stop the other one first."
        )
    if isinstance(failure, InvalidRegistration):
        # The response has no text, and a node of this kind names no other invalid thing.
        return (
            "The controller rejected the registration of this broker: another broker is registered "
            "with one of its log directories, so that is a copy. Each directory needs a "
            "directory.id of its own in meta.properties; for a new one name an empty directory."
        )
    if isinstance(failure, KafkaError) and not isinstance(failure, NotController):
        return f"The controller rejected the registration of this broker: {text}"
    reason = "" if isinstance(failure, NotController) else f" ({text})"
    return (
        f"This broker could not register within {settings.registration_timeout_ms // 1000} s: no "
        f"active controller answers at {settings.controllers}{reason}. Check that a majority of "
        "the controllers runs, and that these addresses are theirs."
    )
