"""The process of a node that a test has started: `python -m penstock.testing.served`.

Its order comes by the standard input: one line of JSON with the settings, and the process that it
must not outlive or the place of a node that several runs share (sharing.py). When it serves it says
so in one line on the standard output; what it logs goes to the standard error.
"""

import ctypes
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.node import Running

PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it is gone. A closed input
    says the same where there is no such call; a stopped process could not hear that."""
    if hasattr(ctypes.CDLL(None), "prctl"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it was gone before this was asked for

    def listen() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=listen, name="parent", daemon=True).start()


def _told(running: "Running") -> dict[str, Any]:
    said = {each.name: each for each in running.config.advertised_listeners}
    reached = [(each, said.get(each.name, each)) for each in running.listeners]
    return {
        "listeners": [
            (each.name, told.host or socket.gethostname(), told.port or each.port)
            for each, told in reached
        ],
        "metrics": None if running.metrics is None else str(running.metrics),
        "process": os.getpid(),
    }


def main() -> int:
    order = json.loads(sys.stdin.buffer.readline())
    if order.get("parent") is not None:
        end_with(order["parent"])
    gc.disable()  # an import leaves nothing to collect; run_node turns it on again
    from penstock.config.broker import BrokerConfig
    from penstock.errors import InvalidConfig
    from penstock.node import StartRefused, run_node

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def announce(running: "Running") -> None:
        told = _told(running)
        if order.get("shared") is not None:
            from penstock.testing.sharing import keep_until_unused

            keep_until_unused(order["shared"], told, order["linger_s"])
        print(json.dumps(told), flush=True)

    try:
        return run_node(BrokerConfig.of(order["settings"]), announce)
    except (StartRefused, InvalidConfig) as refusal:
        print(refusal, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
