"""Broker keys of the node and its cluster: roles, quorum, metadata, topics."""

from penstock.config.allowed import EachOf, at_least
from penstock.config.key import BOOLEAN, INT, LIST, LONG, LONG_MAX, STRING, Key, read_only

KEYS: tuple[Key, ...] = (
    read_only("auto.create.topics.enable", BOOLEAN, True).now(
        "Whether a topic comes into being when a client asks for it by name."
    ),
    read_only("auto.leader.rebalance.enable", BOOLEAN, True).now(
        "Whether leadership goes back to the preferred replicas by itself."
    ),
    read_only("broker.heartbeat.interval.ms", INT, 2000).now(
        "How often a broker tells the active controller that it is alive. At most half of "
        "broker.session.timeout.ms."
    ),
    read_only("broker.id", INT, -1).now("The older name of node.id."),
    read_only("broker.rack", STRING, None).now(
        "The rack or zone of this broker. The replicas of a partition are spread over racks."
    ),
    read_only("broker.session.timeout.ms", INT, 9000).now(
        "After this time without a heartbeat the active controller fences a broker: its "
        "partitions get other leaders where other replicas are in sync."
    ),
    read_only("controlled.shutdown.enable", BOOLEAN, True).later(
        "Whether a broker hands over its partitions before it stops."
    ),
    read_only("controller.listener.names", LIST, None).now(
        "Names of the listeners that controllers use. Brokers use the first to reach them, so "
        "every node of a cluster needs it. A node that is its own only controller needs none."
    ),
    read_only(
        "controller.performance.always.log.threshold.ms", LONG, 2000, at_least(0), internal=True
    ),
    read_only("controller.performance.sample.period.ms", LONG, 60000, at_least(100), internal=True),
    read_only("controller.quorum.append.linger.ms", INT, 25, at_least(0)).never(
        "How long a controller collects records before it writes them; here a turn of the loop "
        "collects them."
    ),
    read_only("controller.quorum.auto.join.enable", BOOLEAN, False).later(
        "Whether a new controller joins the voters by itself."
    ),
    read_only("controller.quorum.bootstrap.servers", LIST, ()).now(
        "Controllers, as host:port, that a node asks for the leader of the quorum. The voters are "
        "in the metadata log, from kafka-storage format on. A single node names itself or leaves "
        "this empty."
    ),
    read_only("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0)).now(
        "The longest random wait of a controller after a lost election."
    ),
    read_only("controller.quorum.election.timeout.ms", INT, 1000, at_least(0)).now(
        "How long a controller waits for votes before the election counts as lost."
    ),
    read_only("controller.quorum.fetch.max.bytes", INT, 1_048_576, at_least(1)).now(
        "The largest answer to a fetch of the metadata log. A batch of records is never cut."
    ),
    read_only("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, at_least(1)).now(
        "The largest slice of a metadata snapshot in one answer."
    ),
    read_only("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0)).now(
        "After this time without an answer of the leader a controller stands for election; a "
        "leader without fetches of a majority for one and a half times as long resigns."
    ),
    read_only("controller.quorum.request.timeout.ms", INT, 2000, at_least(0)).now(
        "How long a request between controllers may take."
    ),
    read_only("controller.quorum.retry.backoff.ms", INT, 20, at_least(0)).now(
        "How long a node waits before it repeats a failed request to a controller."
    ),
    read_only("controller.quorum.voters", LIST, ()).now(
        "The controllers, as id@host:port, if their set never changes (kraft.version 0). Every "
        "node of the cluster has the same list. Otherwise use "
        "controller.quorum.bootstrap.servers."
    ),
    read_only("controller.socket.timeout.ms", INT, 30000).later(
        "How long a connection to the controller may be silent."
    ),
    read_only("default.replication.factor", INT, 1).now(
        "The number of replicas of a topic that does not say."
    ),
    read_only("delete.topic.enable", BOOLEAN, True).now("Whether topics may be deleted."),
    read_only("initial.broker.registration.timeout.ms", INT, 60000).now(
        "How long a starting broker tries to register with the active controller before it stops. "
        "It waits out the session of an older life."
    ),
    read_only("internal.metadata.delete.delay.millis", LONG, 60000, internal=True),
    read_only("internal.metadata.log.segment.bytes", INT, None, internal=True),
    read_only("internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, internal=True),
    read_only("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1)).now(
        "How often to look for leaders that are not the preferred ones."
    ),
    read_only("metadata.log.dir", STRING, None).now(
        "Where the metadata log is; the first of log.dirs if not set."
    ),
    read_only("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, at_least(1)).now(
        "A snapshot of the metadata is taken after this many bytes of new records."
    ),
    read_only("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0)).now(
        "A snapshot of the metadata is taken after this time if there are new records; 0 is never."
    ),
    read_only("metadata.log.segment.bytes", INT, 1_073_741_824, at_least(8_388_608)).now(
        "The size at which a segment of the metadata log is closed."
    ),
    read_only("metadata.log.segment.ms", LONG, 604_800_000).later(
        "The age at which a segment of the metadata log is closed."
    ),
    read_only("metadata.max.idle.interval.ms", INT, 500, at_least(0)).later(
        "How often the controller writes an empty record when nothing happens; 0 is never."
    ),
    read_only("metadata.max.retention.bytes", LONG, 104_857_600).later(
        "How many bytes of metadata log and snapshots are kept."
    ),
    read_only("metadata.max.retention.ms", LONG, 604_800_000).later(
        "How long old metadata log and snapshots are kept."
    ),
    read_only("node.id", INT, None, at_least(0)).now(
        "The number of this node, different from every other node's. A node that is a cluster of "
        "its own may leave it out: it is broker.id then, or 1."
    ),
    read_only("num.partitions", INT, 1, at_least(1)).now(
        "The number of partitions of a topic that does not say."
    ),
    read_only("process.roles", LIST, None, EachOf(("broker", "controller"))).now(
        "What this node is: broker, controller, or both. Both if not set."
    ),
    read_only("reserved.broker.max.id", INT, 1000, at_least(0)).never(
        "In older Kafka, the largest id given by hand; ids above it were made by ZooKeeper. Here "
        "every id is given by hand."
    ),
    read_only("server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), internal=True).never(
        "How long the start may take."
    ),
    read_only("unstable.api.versions.enable", BOOLEAN, False, internal=True).never(
        "Serve request versions that are not final."
    ),
    read_only("unstable.feature.versions.enable", BOOLEAN, False, internal=True).never(
        "Allow feature levels that are not final."
    ),
)
