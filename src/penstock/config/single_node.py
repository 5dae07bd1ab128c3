"""What a node is started with when no file is given: one node on this machine, for one's own use.

Internal topics have one replica because there is one broker; it is said here, in the open, and
not by lowering what somebody has set. `penstock.testing` begins with the same settings.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.config.load import ConfigText

# The node's number and roles are the defaults: said here, broker.id could not be set alone.
SINGLE_NODE_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "./data",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
)
SINGLE_NODE = ConfigText(
    "single-node settings",
    "".join(f"{name}={text}\n" for name, text in SINGLE_NODE_SETTINGS.items()),
)
