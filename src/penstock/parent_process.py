"""The end of a process whose parent is gone: a node never outlives the process that started it."""

import ctypes
import os
import signal
import threading

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its starting thread is gone. Other systems rely on the
    closed standard input, which a stopped process could not notice."""
    if hasattr(ctypes.CDLL(None), "prctl"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the call

    def listen() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=listen, name="parent", daemon=True).start()
