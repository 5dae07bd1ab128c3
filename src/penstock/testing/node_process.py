"""The process of a node that a test has started: `python -m penstock.testing.node_process`.

Its order comes on standard input: one line of JSON with the settings, and either the parent process
or the directory of a node shared by several runs (shared_node.py). When the node serves, it prints
one line on standard output; log lines go to standard error.
"""

import gc
import json
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from penstock.parent_process import end_with_parent

if TYPE_CHECKING:
    from penstock.node import StartedNode


def _announcement(running: "StartedNode") -> dict[str, Any]:
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
        end_with_parent(order["parent"])
    gc.disable()  # imports leave nothing to collect; run_node enables it again
    from penstock.config.broker import BrokerConfig
    from penstock.errors import InvalidConfig
    from penstock.node import StartRefused, run_node

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    def announce(running: "StartedNode") -> None:
        told = _announcement(running)
        if order.get("shared") is not None:
            from penstock.testing.shared_node import keep_until_unused

            keep_until_unused(order["shared"], told, order["linger_s"])
        print(json.dumps(told), flush=True)

    try:
        return run_node(BrokerConfig.of(order["settings"]), announce)
    except (StartRefused, InvalidConfig) as refusal:
        print(refusal, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
