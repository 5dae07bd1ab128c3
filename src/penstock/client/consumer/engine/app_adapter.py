"""The engine's access to the application: bodies in tasks or in threads.

An adapter holds no reference to the Consumer: the garbage collector must find a consumer that was
never closed although its thread still runs.
"""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Protocol

from penstock.client.consumer.assignment.resolved_config import PartitionsCallback
from penstock.client.consumer.engine.shared_state import Fetched
from penstock.client.consumer.offsets.offset_tracker import InFlight
from penstock.model import TopicPartition


class AppAdapter(Protocol):
    """Called from the polling thread."""

    def is_working(self, work: InFlight[Fetched]) -> bool:
        """Return whether a body may still finish these records."""
        ...

    def cancel(self, work: InFlight[Fetched]) -> None:
        """End the body that has lost these records (`work.failure` is the reason), if possible."""
        ...

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        """Call an application's function where application code runs; the future ends with it."""
        ...
