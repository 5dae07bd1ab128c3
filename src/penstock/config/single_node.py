"""What a node is started with when no file is given: one node on this machine, for one's own use.

Internal topics have one replica because there is one broker; it is said here, in the open, and
not by lowering what somebody has set.
"""

from penstock.config.load import ConfigText

SINGLE_NODE = ConfigText(
    "single-node settings",
    """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
log.dirs=./data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
""",
)
