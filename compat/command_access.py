"""kafka-acls, and kafka-configs for users and clients, beside Kafka's own tools."""

from collections.abc import Iterator

from compat.twins import WHO, Twin, in_any_order, only_code

# A server that keeps rules, and lets everybody do everything. Quotas and SCRAM credentials are
# Apache Kafka's alone so far: their commands are tried with its server only.
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def acl_twins(at: tuple[str, ...]) -> Iterator[Twin]:
    """kafka-acls."""

    def acls(*arguments: str) -> Twin:
        return Twin("acls", (*at, *arguments), reads=in_any_order)

    who = ("--allow-principal", "User:alice", "--deny-principal", "User:bob", "--deny-host", "::1")
    topic = ("--topic", f"{WHO}-orders")
    carol = f"User:{WHO}-carol"  # both sides share the cluster, of which she gets a right
    yield acls("--add", *topic, *who, "--operation", "Read", "--operation", "DescribeConfigs")
    yield acls("--add", *topic, "--producer", "--idempotent", "--allow-principal", carol)
    group = ("--group", f"{WHO}-group", "--resource-pattern-type", "prefixed")
    yield acls("--add", *topic, *group, "--consumer", "--allow-principal", "User:dave")
    yield acls("--list")
    yield acls("--list", *topic)
    yield acls("--list", *topic, "--resource-pattern-type", "match")
    yield acls("--list", "--principal", carol)
    yield acls("--remove", *topic, "--force")
    yield acls("--list", *topic)


def entity_twins(at: tuple[str, ...]) -> Iterator[Twin]:
    """kafka-configs of users and clients."""

    def configs(*arguments: str) -> Twin:
        return Twin("configs", (*at, *arguments), reads=in_any_order)

    mine, rate = ("--user", f"{WHO}-user"), "producer_byte_rate=1024,request_percentage=50"
    yield configs("--alter", *mine, "--add-config", rate)
    yield configs("--alter", *mine, "--client", f"{WHO}-client", "--add-config", rate)
    yield configs("--alter", "--client-defaults", "--add-config", "consumer_byte_rate=2048")
    secret = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    yield configs("--alter", *mine, "--add-config", secret)
    yield configs("--describe", *mine)
    yield configs("--describe", "--entity-type", "users", "--entity-type", "clients")
    yield configs("--describe", "--entity-type", "clients")
    yield configs("--alter", *mine, "--delete-config", "producer_byte_rate,request_percentage")
    yield configs("--alter", *mine, "--delete-config", "SCRAM-SHA-256")
    yield configs("--describe", *mine)
    for change in ("nope=1", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"):
        yield Twin("configs", (*at, "--alter", *mine, "--add-config", change), reads=only_code)
