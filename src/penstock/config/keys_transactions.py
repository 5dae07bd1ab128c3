"""Broker keys of transactions."""

from penstock.config.allowed import at_least
from penstock.config.key import BOOLEAN, INT, SHORT, Key, cluster_wide, read_only

KEYS: tuple[Key, ...] = (
    read_only("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0)).now(
        "How long a leader keeps asking the coordinator."
    ),
    read_only("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1)).now(
        "How long a leader waits before it asks the coordinator again."
    ),
    read_only(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, at_least(1)
    ).now("How often to look for transactions that have timed out."),
    read_only("transaction.max.timeout.ms", INT, 900_000, at_least(1)).now(
        "The longest timeout that a transaction may ask for."
    ),
    cluster_wide("transaction.partition.verification.enable", BOOLEAN, True).now(
        "Whether a leader asks the coordinator before it accepts an older client's first write of "
        "a transaction."
    ),
    read_only(
        "transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1)
    ).now("How often to look for transactional ids that have expired."),
    read_only("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1)).never(
        "How much of __transaction_state is read at a time when it is loaded."
    ),
    read_only("transaction.state.log.min.isr", INT, 2, at_least(1)).now(
        "min.insync.replicas of __transaction_state."
    ),
    read_only("transaction.state.log.num.partitions", INT, 50, at_least(1)).now(
        "The number of partitions of __transaction_state; cannot change once it exists."
    ),
    read_only("transaction.state.log.replication.factor", SHORT, 3, at_least(1)).now(
        "The number of replicas of __transaction_state. With fewer brokers transactions do not "
        "work."
    ),
    read_only("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1)).now(
        "The segment size of __transaction_state."
    ),
    read_only("transaction.two.phase.commit.enable", BOOLEAN, True).now(
        "Whether producers may take part in two-phase commit (KIP-939): their transactions have no "
        "time limit. True here; false in Apache Kafka."
    ),
    read_only("transactional.id.expiration.ms", INT, 604_800_000, at_least(1)).now(
        "How long an unused transactional id is remembered."
    ),
)
