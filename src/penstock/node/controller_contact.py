"""Registration and heartbeats of a node: the lifecycle machine, with links and timers around it.

A broker registers and sends heartbeats (broker_lifecycle.py). A controller registers until the
image has its registration, and beside a broker not before that is unfenced.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from penstock.broker.links.link_connection import LinkFailed, LinkRequest
from penstock.broker.links.links import LinkPurpose
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.errors import ClusterAuthorizationFailed, KafkaError, NotController, from_code
from penstock.node.broker_lifecycle import (
    BrokerLeft,
    BrokerLifecycle,
    BrokerPhase,
    BrokerRegistered,
    BrokerUnfenced,
    HeartbeatReply,
    LifecycleAction,
    RegistrationFailed,
    SendHeartbeat,
    SendRegistration,
)
from penstock.node.cluster_metadata import ClusterMetadata
from penstock.node.registration import (
    BROKER_HEARTBEAT_VERSION,
    BROKER_REGISTRATION_VERSION,
    CONTROLLER_REGISTRATION_VERSION,
    NodeRegistration,
)
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.world import Timer, World

log = logging.getLogger("penstock.node")

FOREVER = float("inf")
CONTROLLER_RETRY_MS = 1_000


class ContactedNode(Protocol):
    """The node, as far as its contact with the controller changes it."""

    def registered(self, broker_epoch: int) -> None:
        """Open the logs: the image has the registration."""
        ...

    def unfenced(self) -> None: ...
    def left(self) -> None: ...
    def rejected(self, reason: str) -> None: ...


class ControllerContact:
    """Keeps a broker registered and alive, and a controller registered."""

    def __init__(
        self,
        world: World,
        metadata: ClusterMetadata,
        requests: NodeRegistration,
        lifecycle: BrokerLifecycle,
        node: ContactedNode,
        *,
        heartbeat_timeout_ms: int,
    ) -> None:
        self._world = world
        self._metadata = metadata
        self._requests = requests
        self._lifecycle = lifecycle
        self._node = node
        self._heartbeat_timeout_ms = heartbeat_timeout_ms
        self._timer: Timer | None = None
        self._timer_ms = FOREVER
        self._request: LinkRequest[Any] | None = None
        self._answer: Callable[[Any], None] | None = None  # of the request without a result so far
        self._awaited_epoch: int | None = None  # a registration that the image does not have yet
        self._awaits_unfencing = False  # the image still has this broker as fenced
        self._begins_to_leave = False
        self._stopped = False
        metadata.quorum.on_image(self._follow)

    # -- the broker

    def start_broker(self) -> None:
        """Register the broker, and keep it alive from then on."""
        self._metadata.on_leader(self._leader_changed)
        self._do(self._lifecycle.start(self._now()))

    def opened(self) -> None:
        """Note that the logs are open."""
        self._do(self._lifecycle.opened(self._now()))

    def register_again(self) -> None:
        """Register as a new incarnation; `registered` follows."""
        self._do(self._lifecycle.register_again(self._now()))

    def leave(self) -> None:
        """Ask the controller to take over the leaderships of this broker; `left` follows."""
        self._begins_to_leave = True
        self._do(self._lifecycle.stop(self._now()))
        self._begins_to_leave = False

    def report(self) -> None:
        """Send a heartbeat now: the controller has to know of a failed directory."""
        if self.is_serving:
            self._hurry()

    @property
    def is_serving(self) -> bool:
        return self._lifecycle.phase is BrokerPhase.SERVING

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        for each in (self._timer, self._request):
            if each is not None:
                each.cancel()

    def _leader_changed(self) -> None:
        """Ask the new leader: the former one may not answer any more."""
        answer = self._answer
        if self._request is not None and answer is not None:
            self._request.cancel()
            self._request = None
            answer(LinkFailed("another controller leads", unsent=False))
        self._hurry()

    def _now(self) -> float:
        return self._world.clock.mono_ms()

    def _do(self, actions: list[LifecycleAction]) -> None:
        for action in actions:
            if self._stopped:
                return
            match action:
                case SendRegistration():
                    self._ask(
                        self._requests.broker_request(),
                        BROKER_REGISTRATION_VERSION,
                        k62.BrokerRegistrationResponse,
                        self._registered,
                    )
                case SendHeartbeat():
                    self._send_heartbeat(action)
                case BrokerRegistered():
                    self._awaited_epoch = action.broker_epoch
                    self._look_for_registration(self._metadata.image)
                case BrokerUnfenced():
                    self._awaits_unfencing = True
                    self._look_for_unfencing(self._metadata.image)
                case BrokerLeft():
                    if self._begins_to_leave:
                        self._node.left()
                    else:  # on a turn of its own: a fault of the stop is no fault of a reply
                        self._world.timers.soon(self._node.left)
                case RegistrationFailed():
                    self._world.timers.soon(partial(self._node.rejected, action.reason))
        self._set_timer()

    def _set_timer(self) -> None:
        wake_up_ms = self._lifecycle.wake_up_ms
        if self._stopped or wake_up_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = wake_up_ms
        if wake_up_ms < FOREVER:
            self._timer = self._world.timers.at(wake_up_ms, self._wake_up)

    def _wake_up(self) -> None:
        self._timer, self._timer_ms = None, FOREVER
        self._do(self._lifecycle.time_passed(self._now()))

    def _send_heartbeat(self, action: SendHeartbeat) -> None:
        heartbeat = k63.BrokerHeartbeatRequest(
            broker_id=self._requests.node_id,
            broker_epoch=action.broker_epoch,
            current_metadata_offset=self._metadata.image.offset,
            want_fence=action.want_fence,
            want_shut_down=action.want_shut_down,
            offline_log_dirs=self._requests.offline_directories(),
        )
        self._ask(heartbeat, BROKER_HEARTBEAT_VERSION, k63.BrokerHeartbeatResponse, self._heard)

    def _ask(
        self, message: Any, version: int, expect: type[Any], done: Callable[[Any], None]
    ) -> None:
        """Ask the active controller once; `done` gets the response or an exception, once."""

        def answered(result: Any) -> None:
            if self._answer is not answered or self._stopped:
                return
            self._answer = self._request = None
            code = getattr(result, "error_code", 0)
            done(from_code(code) if code else result)

        self._answer = answered
        if self._metadata.is_leader:
            self._metadata.submit_here(message, version, answered)
        else:
            self._request = self._metadata.channel.send(
                message, expect, LinkPurpose.HEARTBEAT, self._heartbeat_timeout_ms, answered
            )

    def _registered(self, result: k62.BrokerRegistrationResponse | Exception) -> None:
        epoch = result if isinstance(result, Exception) else result.broker_epoch
        if isinstance(result, Exception):
            log.log(
                logging.WARNING
                if isinstance(result, ClusterAuthorizationFailed)
                else logging.DEBUG,
                "the registration of this broker waits: %s",
                result,
            )
        self._do(self._lifecycle.registered(epoch, self._now()))

    def _heard(self, result: k63.BrokerHeartbeatResponse | Exception) -> None:
        if isinstance(result, Exception):
            passing = isinstance(result, NotController) or not isinstance(result, KafkaError)
            log.log(
                logging.DEBUG if passing else logging.WARNING,
                "the controller did not take a heartbeat of this broker: %s",
                result,
            )
            reply: HeartbeatReply | Exception = result
        else:
            reply = HeartbeatReply(result.is_fenced, result.should_shut_down)
        self._do(self._lifecycle.heard(reply, self._now()))

    # -- the image

    def _follow(self, image: Image, delta: Delta) -> None:
        if delta.brokers and self.is_serving and _is_leaving(image, delta):
            # The stop of another broker waits until this one reports that it has seen it.
            self._world.timers.soon(self._hurry)
        if self._awaited_epoch is not None:
            self._look_for_registration(image)
        if self._awaits_unfencing:
            self._look_for_unfencing(image)

    def _hurry(self) -> None:
        self._do(self._lifecycle.hurry(self._now()))

    def _look_for_registration(self, image: Image) -> None:
        """Let the node open its logs when the image has its registration."""
        epoch = self._awaited_epoch
        if epoch is not None and image.offset >= epoch:
            self._awaited_epoch = None
            self._node.registered(epoch)

    def _look_for_unfencing(self, image: Image) -> None:
        """Let the node serve when the image has this broker as unfenced."""
        broker = image.brokers.get(self._requests.node_id)
        if broker is not None and not broker.fenced:
            self._awaits_unfencing = False
            self._node.unfenced()

    # -- the controller

    def register_controller(self) -> None:
        """Register the controller of this node, until the image has the registration."""
        request = self._requests.controller_request()
        if request is None or self._stopped:
            return
        known = self._metadata.image.controllers.get(request.controller_id)
        if known is None or known.incarnation_id != request.incarnation_id:
            self._metadata.submit(request, CONTROLLER_REGISTRATION_VERSION, self._controller_known)

    def _controller_known(self, result: Any) -> None:
        code = getattr(result, "error_code", 0)
        if (code or isinstance(result, KafkaError)) and not self._stopped:
            reason = result if isinstance(result, KafkaError) else from_code(code)
            # The next step of these errors is one for clients.
            log.warning("the registration of this controller waits: %s", reason.message)
            at_ms = self._now() + CONTROLLER_RETRY_MS
            self._world.timers.at(at_ms, self.register_controller)


def _is_leaving(image: Image, delta: Delta) -> bool:
    """Return whether a broker has begun a controlled shutdown."""
    changed = (image.brokers.get(each) for each in delta.brokers)
    return any(each is not None and each.in_controlled_shutdown for each in changed)
