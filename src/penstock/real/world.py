"""The real world as one thing to hand to a node."""

import os
import random
import uuid

from penstock.real import descriptors
from penstock.real.disk import RealDisk
from penstock.real.loop import Loop
from penstock.real.network import SocketNetwork
from penstock.real.workers import ThreadWorkers


class SystemEntropy:
    def uuid(self) -> bytes:
        return uuid.uuid4().bytes

    def random_ms(self, low: int, high: int) -> int:
        return random.randint(low, high)


class RealWorld:
    """Loop, sockets, threads and directories of this machine."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.clock = self.loop
        self.timers = self.loop
        self.network = SocketNetwork(self.loop)
        self.workers = ThreadWorkers(self.loop, threads=min(8, 2 + (os.cpu_count() or 1)))
        self.entropy = SystemEntropy()

    def disk(self, root: str) -> RealDisk:
        return RealDisk(root, self.workers)

    def files_left(self) -> int:
        return descriptors.left()

    def close(self) -> None:
        self.workers.close()
        self.network.close()
        self.loop.close()
