"""The metadata of the cluster for the broker of a node: the image, and requests to the controller.

A request goes to the controller of this node if that leads the quorum, else to the node that does
(submission.py). A change that another node has made is answered when the image of this node has it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from penstock.broker.links.controller_channel import ControllerChannel
from penstock.broker.links.links import LinkPurpose, Links
from penstock.broker.metadata.quorum_controller import QuorumController
from penstock.controller.delta import Delta
from penstock.controller.describe import describe_quorum
from penstock.controller.image import Image
from penstock.credentials.principal import Caller
from penstock.errors import KafkaError
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.node.submission import Settle, Submission
from penstock.raft.description import QuorumView
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.wire.apis import APIS
from penstock.wire.messages import k55_describe_quorum as k55
from penstock.wire.schema import schema_of
from penstock.world import World

R = TypeVar("R")
FOLLOW_MS_MAX = 5_000  # until the image of this node has a change of another node
FOLLOW_RETRY_MS = 50  # between two questions how far the controller is


class _Lagging(NamedTuple):
    """An answer that waits for the image."""

    high_watermark: int
    deadline_ms: float
    call: Callable[[], None]


class ClusterMetadata:
    """The image that this node follows, and the active controller (the broker's Metadata)."""

    def __init__(
        self,
        world: World,
        quorum: QuorumController,
        links: Links,
        *,
        node_id: int,
        cluster_id: str,
        timeout_ms: int,
    ) -> None:
        """Follow the quorum; `timeout_ms` limits a request, with all its attempts."""
        self.world = world
        self.quorum = quorum
        self.cluster_id = cluster_id
        self.channel = ControllerChannel(links, world.timers, self._find_controller)
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self._pending: dict[Submission, None] = {}
        self._lagging: list[_Lagging] = []
        self._is_stopped = False
        self._on_leader: list[Callable[[], None]] = [self._leader_changed]
        quorum.on_image(self._follow)
        quorum.on_leader(lambda: world.timers.soon(self._notify_leader))

    @property
    def image(self) -> Image:
        return self.quorum.image

    @property
    def is_active(self) -> bool:
        return self.quorum.is_active

    @property
    def is_leader(self) -> bool:
        """Return whether this node leads the quorum; its controller may still replay the log."""
        return self.quorum.active_controller[0] == self._node_id

    @property
    def leader(self) -> tuple[int, int]:
        return self.quorum.active_controller

    def describe(self) -> QuorumView:
        return self.quorum.describe()

    def receive(self, request: QuorumRequest, reply: Callable[[QuorumResponse], None]) -> None:
        self.quorum.receive(request, reply)

    def _find_controller(self) -> tuple[int, tuple[str, int]] | None:
        leader_id, _ = self.quorum.active_controller
        endpoint = self.quorum.leader_endpoint
        if endpoint is None or leader_id in (-1, self._node_id):
            return None
        return leader_id, (endpoint.host, endpoint.port)

    # -- requests

    def submit_here(self, message: Any, version: int, done: Settle, /) -> None:
        self.quorum.submit(message, version, done)

    def submit(
        self,
        message: Any,
        version: int,
        done: Settle,
        caller: Caller | None = None,
        client_id: str = "",
    ) -> None:
        """Hand a request to the active controller; see broker.metadata.cluster_metadata."""
        self._begin(message, version, done, caller, client_id, follows=True)

    def ask_once(
        self, message: Any, expect: type[R], done: Callable[[R | Exception], None]
    ) -> None:
        """Send a request of this broker itself to the active controller, once."""
        if self.is_leader:
            key = schema_of(type(message)).key
            assert key is not None, "a request has a key"
            self.submit_here(message, APIS[key].versions[1], done)
        else:
            self.channel.send(message, expect, LinkPurpose.SHORT, self._timeout_ms, done)

    def describe_everywhere(self, message: Any, version: int, done: Settle, caller: Caller) -> None:
        """Describe the quorum as its leader sees it."""
        view = self.describe()
        if view.led is not None:
            done(describe_quorum(message, view))
        else:
            self._begin(message, version, done, caller, "", follows=False)

    def _begin(
        self,
        message: Any,
        version: int,
        done: Settle,
        caller: Caller | None,
        client_id: str,
        *,
        follows: bool,
    ) -> None:
        def over(result: Any) -> None:
            self._pending.pop(submission, None)
            if follows and submission.was_forwarded and not isinstance(result, KafkaError):
                self._when_followed(lambda: done(result))
            else:
                done(result)

        submission = Submission(self, message, version, caller, client_id, self._timeout_ms, over)
        self._pending[submission] = None
        submission.attempt()

    def on_leader(self, listener: Callable[[], None]) -> None:
        """Call the listener, on a later turn, when this node knows another leader of the quorum."""
        self._on_leader.append(listener)

    def _notify_leader(self) -> None:
        if not self._is_stopped and self.quorum.active_controller[0] >= 0:
            for listener in self._on_leader:
                listener()

    def _leader_changed(self) -> None:
        for each in list(self._pending):
            each.leader_changed()

    def stop(self) -> None:
        """Send nothing more; requests without an answer get none."""
        self._is_stopped = True
        for each in self._pending:
            each.cancel()
        self._pending.clear()
        self._lagging.clear()

    # -- answers wait for the image

    def _when_followed(self, call: Callable[[], None]) -> None:
        """Call when the image has what the active controller has committed by now, or after a
        limited time. The controller may change meanwhile: the next one knows the change, too."""
        deadline_ms = self.world.clock.mono_ms() + FOLLOW_MS_MAX
        self._ask_how_far(deadline_ms, call)

    def _ask_how_far(self, deadline_ms: float, call: Callable[[], None]) -> None:
        if self._is_stopped:
            return

        def described(response: k55.DescribeQuorumResponse | Exception) -> None:
            high_watermark = _high_watermark_in(response)
            if high_watermark >= 0:
                self._call_when_followed(high_watermark, deadline_ms, call)
                return
            again_ms = self.world.clock.mono_ms() + FOLLOW_RETRY_MS
            if again_ms >= deadline_ms:
                call()
            else:
                self.world.timers.at(again_ms, lambda: self._ask_how_far(deadline_ms, call))

        led = self.describe().led
        if led is not None and led.high_watermark >= 0:
            self._call_when_followed(led.high_watermark, deadline_ms, call)
            return
        partition = k55.RequestPartitionData(partition_index=0)
        topic = k55.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
        self.channel.send(
            k55.DescribeQuorumRequest(topics=[topic]),
            k55.DescribeQuorumResponse,
            LinkPurpose.SHORT,
            max(1.0, deadline_ms - self.world.clock.mono_ms()),
            described,
        )

    def _call_when_followed(
        self, high_watermark: int, deadline_ms: float, call: Callable[[], None]
    ) -> None:
        if self.image.offset >= high_watermark - 1:
            call()
            return
        self._lagging.append(_Lagging(high_watermark, deadline_ms, call))
        self.world.timers.at(deadline_ms, self._release)

    def _follow(self, _image: Image, _delta: Delta) -> None:
        if self._lagging:
            # The listeners of an image run in order: the broker has the image before the answers.
            self.world.timers.soon(self._release)

    def _release(self) -> None:
        end_offset, now_ms = self.image.offset + 1, self.world.clock.mono_ms()
        lagging, self._lagging = self._lagging, []
        for each in lagging:
            if each.high_watermark <= end_offset or each.deadline_ms <= now_ms:
                each.call()
            else:
                self._lagging.append(each)


def _high_watermark_in(response: k55.DescribeQuorumResponse | Exception) -> int:
    """Return the end of what is committed, -1 unless the leader of the quorum has answered."""
    if isinstance(response, Exception) or not response.topics:
        return -1
    return response.topics[0].partitions[0].high_watermark
