"""The metadata of the cluster, as the broker reads and changes it."""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.controller.image import Image
from penstock.raft.description import QuorumView


class Metadata(Protocol):
    """The image that is committed, and the way to the controller."""

    @property
    def image(self) -> Image: ...

    @property
    def cluster_id(self) -> str: ...

    def submit(self, message: Any, version: int, done: Callable[[Any], None]) -> None:
        """Hand a request to the controller; `done` gets the response or a KafkaError."""
        ...

    def describe(self) -> QuorumView: ...
