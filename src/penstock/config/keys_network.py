"""Broker keys of the network: listeners, connections, requests."""

from penstock.config.allowed import AddressCounts, OneOf, at_least
from penstock.config.key import (
    INT,
    INT_MAX,
    LIST,
    LONG,
    STRING,
    Key,
    cluster_wide,
    per_broker,
    read_only,
)

KEYS: tuple[Key, ...] = (
    read_only("advertised.listeners", LIST, None).now(
        "The addresses that clients are told to connect to, when they differ from listeners. Must "
        "be reachable by them: 0.0.0.0 is not an address to connect to."
    ),
    cluster_wide("background.threads", INT, 10, at_least(1)).now(
        "Threads for work beside the loop, such as syncing, deleting and cold reads: so many for "
        "each log directory, and for what waits for none. If it is not set, two more than there "
        "are processors, 8 at most. Recompressing has threads of its own, one for two processors."
    ),
    read_only("connections.max.idle.ms", LONG, 600_000).now(
        "A connection that has been silent for this long is closed; below 0, never."
    ),
    read_only("connections.max.reauth.ms", LONG, 0).now(
        "How long a login by SASL lasts before the client has to repeat it; 0 is for ever. With a "
        "prefix for one listener, `listener.name.L.`, or for one of its mechanisms, "
        "`listener.name.L.MECHANISM.`."
    ),
    read_only("delete.records.purgatory.purge.interval.requests", INT, 1).never(
        "How often Kafka sweeps its waiting deletions; here nothing is left to sweep."
    ),
    read_only("early.start.listeners", LIST, None).never(
        "Listeners that open before the authorizer is ready."
    ),
    read_only("fetch.max.bytes", INT, 57_671_680, at_least(1024)).now(
        "The largest answer to one fetch, whatever the client asks for."
    ),
    read_only("fetch.purgatory.purge.interval.requests", INT, 1000).never(
        "How often Kafka sweeps its waiting fetches; here nothing is left to sweep."
    ),
    read_only("inter.broker.listener.name", STRING, None).now(
        "The listener that brokers use among themselves; the first PLAINTEXT one if not set."
    ),
    per_broker(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ).now(
        "Which protocol each listener name speaks, as NAME:PROTOCOL. Only PLAINTEXT is served "
        "today."
    ),
    per_broker("listeners", LIST, ("PLAINTEXT://:9092",)).now(
        "The addresses to listen on, as NAME://host:port. An empty host or 0.0.0.0 is every "
        "interface; port 0 picks a free one."
    ),
    cluster_wide("max.connection.creation.rate", INT, INT_MAX, at_least(0)).now(
        "How many new connections per second are accepted, by the node and by each listener "
        "(listener.name.<listener>.max.connection.creation.rate); those beyond wait."
    ),
    cluster_wide("max.connections", INT, INT_MAX, at_least(0)).now(
        "How many connections may be open in the node, and in each listener "
        "(listener.name.<listener>.max.connections). Further ones wait until one is closed. The "
        "listener of the brokers, if it is not the only one, is not kept waiting by the limit of "
        "the node."
    ),
    cluster_wide("max.connections.per.ip", INT, INT_MAX, at_least(0)).now(
        "How many connections one address may have; further ones are closed."
    ),
    cluster_wide("max.connections.per.ip.overrides", STRING, "", AddressCounts()).now(
        "Exceptions to max.connections.per.ip, as address:count, separated by commas. Names of "
        "hosts are not looked up."
    ),
    read_only("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0)).now(
        "How many fetch sessions are kept; the oldest idle one makes room."
    ),
    read_only("max.request.partition.size.limit", INT, 2000, at_least(1)).now(
        "How many partitions one answer describes at most (DescribeTopicPartitions); the client "
        "asks on for the others."
    ),
    cluster_wide("num.io.threads", INT, 8, at_least(1)).never(
        "In Kafka, threads that answer requests. Here one loop does, in one thread; run more nodes "
        "to use more cores."
    ),
    cluster_wide("num.network.threads", INT, 3, at_least(1)).never(
        "In Kafka, threads that move bytes. Here one loop does, in one thread; run more nodes to "
        "use more cores."
    ),
    read_only("producer.purgatory.purge.interval.requests", INT, 1000).never(
        "How often Kafka sweeps its waiting produce requests; here nothing is left to sweep."
    ),
    read_only("queued.max.request.bytes", LONG, -1).now(
        "How many bytes of requests may be in memory, incomplete or waiting for work beside the "
        "loop, before their connections are read no further. Not below socket.request.max.bytes; "
        "-1 is 1 GiB."
    ),
    read_only("queued.max.requests", INT, 500, at_least(1)).now(
        "How many requests of the node may wait for work beside the loop, such as recompression, "
        "before the connections that add to them are read no further. All others are answered as "
        "they come."
    ),
    read_only("request.timeout.ms", INT, 30000).later(
        "How long a node waits for another node's answer."
    ),
    read_only(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    ).later(
        "The protocol that brokers use among themselves, when inter.broker.listener.name is not "
        "set."
    ),
    read_only("socket.connection.setup.timeout.max.ms", LONG, 30000).later(
        "The longest that socket.connection.setup.timeout.ms grows to after failures."
    ),
    read_only("socket.connection.setup.timeout.ms", LONG, 10000).later(
        "How long a connection to another node may take to open."
    ),
    read_only("socket.listen.backlog.size", INT, 50, at_least(1)).now(
        "How many connections may wait to be accepted; 1024 if it is not set."
    ),
    read_only("socket.receive.buffer.bytes", INT, 102_400).now(
        "The receive buffer of a connection (SO_RCVBUF). If it is not set, or -1, the operating "
        "system chooses, which is faster."
    ),
    read_only("socket.request.max.bytes", INT, 104_857_600, at_least(1)).now(
        "The largest request; a connection that announces a larger one is closed."
    ),
    read_only("socket.send.buffer.bytes", INT, 102_400).now(
        "The send buffer of a connection (SO_SNDBUF). If it is not set, or -1, the operating "
        "system chooses, which is faster."
    ),
)
