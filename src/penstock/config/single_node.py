"""The settings of a node without a file: one node on this machine, for local use.

Internal topics have one replica because there is one broker. These settings are explicit defaults,
and never lower a setting of the user. `penstock.testing` begins with the same settings.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.config.load import ConfigText

# Node id and roles are left to their defaults: with node.id set here, broker.id alone would
# conflict.
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
