"""The real world as one object for a node."""

import ctypes
import os
import random
import uuid

from penstock.real.child_process import RealChildProcesses
from penstock.real.descriptors import Descriptors
from penstock.real.disk import RealDisk
from penstock.real.loop import Loop
from penstock.real.network import SocketNetwork
from penstock.real.process_stats import process_stats
from penstock.real.workers import ThreadWorkers
from penstock.world import ChildProcesses, ProcessStats

FILE_BYTES_MAX = 16 * 1024 * 1024  # of `read_file`


def read_file(path: str) -> bytes:
    """Return the content of a small file. Raise OSError."""
    with open(path, "rb") as file:
        return file.read(FILE_BYTES_MAX)


class SystemEntropy:
    def uuid(self) -> bytes:
        return uuid.uuid4().bytes

    def random_ms(self, low: int, high: int) -> int:
        return random.randint(low, high)


class RealWorld:
    """The loop, sockets, threads and directories of this machine."""

    def __init__(self, loop: Loop | None = None, *, group_access: bool = False) -> None:
        """Make the parts of a world on one loop. `group_access` lets the group of this user read
        new files."""
        self.loop = loop or Loop()
        self.clock = self.loop
        self.timers = self.loop
        self.network = SocketNetwork(self.loop)
        self.workers = ThreadWorkers(self.loop)
        self.child_processes: ChildProcesses = RealChildProcesses(
            self.loop, self.workers, group_access
        )
        self.entropy = SystemEntropy()
        self._descriptors = Descriptors()
        self._group_access = group_access

    def disk(self, root: str) -> RealDisk:
        return RealDisk(
            root,
            self.workers.of_disk(os.path.abspath(root)),
            self._descriptors,
            group_access=self._group_access,
        )

    def read_file(self, path: str) -> bytes:
        return read_file(path)

    def fetch(self, url: str, bytes_max: int, timeout_ms: float) -> bytes:
        from penstock.real.web import fetch_document

        return fetch_document(url, bytes_max, timeout_ms)

    def process_stats(self) -> ProcessStats:
        return process_stats(self.loop, self.workers)

    def release_memory(self) -> None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only in glibc; others need none
        if trim is not None:
            self.workers.run(trim, (ctypes.c_size_t(0),), lambda _released, _failure: None)

    def close(self) -> None:
        if isinstance(self.child_processes, RealChildProcesses):
            self.child_processes.close()
        self.workers.close()
        self.network.close()
        self.loop.close()
