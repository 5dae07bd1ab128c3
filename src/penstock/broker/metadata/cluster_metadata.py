"""The metadata of the cluster, as the broker reads and changes it."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from penstock.controller.image import Image
from penstock.credentials.principal import Caller
from penstock.raft.description import QuorumView
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse

R = TypeVar("R")


class Metadata(Protocol):
    """The image that is committed, and the requests to the controller."""

    @property
    def image(self) -> Image: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def is_active(self) -> bool:
        """Return whether the active controller is on this node."""
        ...

    def submit(
        self,
        message: Any,
        version: int,
        done: Callable[[Any], None],
        caller: Caller | None = None,
        client_id: str = "",
    ) -> None:
        """Hand a request to the active controller, on whichever node that is. `done` gets the
        response, when this node has the change, or a KafkaError. The controller judges what the
        caller may do, and holds the client to its quota; a request without a caller is this
        node's own."""
        ...

    def submit_here(self, message: Any, version: int, done: Callable[[Any], None]) -> None:
        """Hand a request to the controller of this node; `done` gets the response or a KafkaError,
        NotController if another node is active."""
        ...

    def ask_once(
        self, message: Any, expect: type[R], done: Callable[[R | Exception], None]
    ) -> None:
        """Send a request of this broker itself to the active controller, once. `done` gets the
        response, or an exception."""
        ...

    def on_leader(self, listener: Callable[[], None]) -> None:
        """Call the listener when this node knows another active controller."""
        ...

    def receive(self, request: QuorumRequest, reply: Callable[[QuorumResponse], None]) -> None:
        """Give a request of another node to the metadata quorum."""
        ...

    def describe(self) -> QuorumView: ...

    def describe_everywhere(
        self, message: Any, version: int, done: Callable[[Any], None], caller: Caller
    ) -> None:
        """Ask the leader of the quorum for its description; `done` gets the response or a
        KafkaError."""
        ...
