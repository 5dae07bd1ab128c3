"""The handlers of the offset APIs at a broker that is nothing but an image and its coordinators."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from offset_story import Story
from open_access import without_authorizer

from penstock.broker.coordinators.coordinators import Coordinators
from penstock.broker.handlers import k08_offset_commit, k09_offset_fetch, k47_offset_delete
from penstock.controller.image import Image, PartitionImage, Topic
from penstock.coordinator.events import GroupRequest
from penstock.effects import Outcome
from penstock.errors import KafkaError, NotCoordinator
from penstock.wire.apis import request_class, response_class
from penstock.wire.codec import read, write
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k09_offset_fetch import OffsetFetchRequest
from penstock.wire.messages.k47_offset_delete import OffsetDeleteRequest

HANDLERS: dict[type, tuple[int, Callable[..., Any]]] = {
    OffsetCommitRequest: (8, k08_offset_commit.handle),
    OffsetFetchRequest: (9, k09_offset_fetch.handle),
    OffsetDeleteRequest: (47, k47_offset_delete.handle),
}


class Coordinator:
    """One partition's machine, which answers when it is told to."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.error: KafkaError | None = None  # instead of any answer
        self.holds_back = False
        self.calls: list[GroupRequest] = []
        self._later: list[Callable[[], None]] = []

    def submit(self, call: GroupRequest, done: Callable[[Any], None]) -> None:
        self.calls.append(call)
        reply = self._handle(call)
        if self.holds_back:
            self._later.append(lambda: done(reply))
        else:
            done(reply)

    def let_go(self) -> None:
        for answer in self._later:
            answer()
        self._later.clear()

    def _handle(self, call: GroupRequest) -> Any:
        if self.error is not None:
            return self.error
        try:
            return self.story.perform(self._outcome(call))
        except KafkaError as error:
            return error

    def _outcome(self, call: GroupRequest) -> Outcome:
        work = self.story.work
        match call.message:
            case OffsetCommitRequest():
                return work.commit(call, self.story.now_ms)
            case OffsetFetchRequest():
                return work.fetch(call)
            case OffsetDeleteRequest():
                return work.delete(call)
            case other:
                raise AssertionError(f"no request about offsets: {other}")


class OffsetBroker:
    """Asks handlers; every request and answer goes over the wire in its version."""

    def __init__(self) -> None:
        self.story = Story()
        self.coordinators: dict[str, Coordinator] = {}  # by group; the default is the first
        self.first = Coordinator(self.story)
        self.image = Image()
        self.replies: list[Any] = []

    def topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        made = {n: PartitionImage(n, (1,), (1,), 1, 0, 0) for n in range(partitions)}
        self.image = Image(
            topics={**self.image.topics, name: Topic(name, topic_id, made)},
            topic_names={**self.image.topic_names, topic_id: name},
        )

    def _runtime(self, group_id: str) -> Coordinator:
        if group_id.startswith("elsewhere"):
            raise NotCoordinator(f"{group_id} is elsewhere")
        return self.coordinators.get(group_id, self.first)

    def send(self, message: Any, version: int) -> None:
        """The answer, when it comes, is the last of `replies`."""
        key, handle = HANDLERS[type(message)]

        def reply(response: Any) -> None:
            data = write(response, version)
            self.replies.append(read(response_class(key), version, data))

        request = SimpleNamespace(api_version=version, client_id="c", reply=reply)
        coordinators: Any = SimpleNamespace(
            group_runtime=self._runtime, call=lambda _request, sent: GroupRequest(sent, version)
        )
        coordinators.submit = partial(Coordinators.submit, coordinators)
        broker = SimpleNamespace(
            image=self.image, coordinators=coordinators, access=without_authorizer()
        )
        received: Any = read(request_class(key), version, write(message, version))
        response = handle(broker, request, received)
        if response is not None:
            reply(response)

    def ask(self, message: Any, version: int) -> Any:
        before = len(self.replies)
        self.send(message, version)
        assert len(self.replies) == before + 1, "one answer, at once"
        return self.replies[-1]
