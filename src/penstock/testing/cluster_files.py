"""The directory of a cluster for tests: one of the user, a temporary one, or a name in memory."""

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.testing.failures import NotPossible

if TYPE_CHECKING:
    from penstock.testing.scratch import Scratch

MEMORY_DIRECTORY = Path("/dev/shm")


class ClusterFiles:
    """The data of a cluster, and its files that `remove` takes away."""

    def __init__(self, data: str | None, *, memory: bool, processes: bool) -> None:
        """Name the directory. `memory` without `processes` needs none: the data lives in disks of
        the test's process."""
        self._data = data
        self._memory = memory
        self._processes = processes
        self._temporary: Scratch | None = None

    @property
    def keeps_data(self) -> bool:
        return self._data is not None

    @property
    def in_memory(self) -> bool:
        """Return whether the disks are objects of this process."""
        return self._memory and not self._processes

    @property
    def root(self) -> str:
        if self._data is not None:
            return self._data
        if self.in_memory:
            return "memory"
        return os.path.join(self.scratch, "data")

    @property
    def scratch(self) -> str:
        """Return a directory of this cluster, which `remove` takes away."""
        if self._temporary is None:
            parent = MEMORY_DIRECTORY if self._memory and self._processes else None
            if parent is not None and not os.access(parent, os.W_OK):
                raise NotPossible(
                    f"memory=True with processes=True needs {parent}, a directory in memory"
                )
            from penstock.testing.scratch import Scratch

            self._temporary = Scratch(parent)
            atexit.register(self.remove)
        return str(self._temporary.path)

    def remove(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None
            atexit.unregister(self.remove)
