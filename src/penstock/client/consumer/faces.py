"""What the engine asks of whoever stands before it: the consumer for asyncio, or the blocking one.

A face knows how a body can be reached. It never holds the consumer itself: one that is forgotten
without a close must be found by the garbage collector, though its thread still runs.
"""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Protocol

from penstock.client.consumer.desk import Fetched
from penstock.client.consumer.ledger import Work
from penstock.client.consumer.plan import PartitionsCallback
from penstock.model import TopicPartition


class Face(Protocol):
    """All are called from the polling thread."""

    def is_working(self, work: Work[Fetched]) -> bool:
        """Whether somebody may still finish it: if not, nobody waits for it."""
        ...

    def strike(self, work: Work[Fetched]) -> None:
        """The work was taken from its body (`work.failure` says why): end the body, if possible."""
        ...

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        """Call the application's function, where its own code runs; the future ends with it."""
        ...
