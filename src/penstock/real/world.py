"""The real world as one thing to hand to a node."""

import ctypes
import os
import random
import uuid

from penstock.real.apart import ProcessApart
from penstock.real.descriptors import Descriptors
from penstock.real.disk import RealDisk
from penstock.real.loop import Loop
from penstock.real.network import SocketNetwork
from penstock.real.vitals import vitals
from penstock.real.workers import ThreadWorkers
from penstock.world import Apart, Vitals


class SystemEntropy:
    def uuid(self) -> bytes:
        return uuid.uuid4().bytes

    def random_ms(self, low: int, high: int) -> int:
        return random.randint(low, high)


class RealWorld:
    """Loop, sockets, threads and directories of this machine."""

    def __init__(self, loop: Loop | None = None, *, group_access: bool = False) -> None:
        """`group_access` lets the group of this user read new files."""
        self.loop = loop or Loop()
        self.clock = self.loop
        self.timers = self.loop
        self.network = SocketNetwork(self.loop)
        self.workers = ThreadWorkers(self.loop)
        self.apart: Apart = ProcessApart(self.loop, self.workers, group_access)
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

    def vitals(self) -> Vitals:
        return vitals(self.loop, self.workers)

    def release_memory(self) -> None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others need none
        if trim is not None:
            self.workers.run(trim, (ctypes.c_size_t(0),), lambda _released, _failure: None)

    def close(self) -> None:
        if isinstance(self.apart, ProcessApart):
            self.apart.close()
        self.workers.close()
        self.network.close()
        self.loop.close()
