"""Joins broker, controller and the world into a running node.

node.py          PenstockNode: the phases of a node's life
opening.py       addresses, the port for metrics, locked directories: taken first, released last
metadata.py      the controller over the metadata log
registration.py  the requests with which a node makes itself known
shutdown.py      the drain of a stop, closed logs, the markers of a clean stop
process.py       a node as a process, from its start to a signal
"""

from penstock.node.node import PenstockNode
from penstock.node.opening import StartRefused
from penstock.node.process import StartedNode, run_node

__all__ = ["PenstockNode", "StartRefused", "StartedNode", "run_node"]
