"""The topics of an application: inputs must exist, outputs are created."""

import logging

from penstock.client.admin.blocking import Admin
from penstock.client.transport.security import Security
from penstock.client.values import NewTopic
from penstock.errors import KafkaError, TopicAlreadyExists
from penstock.streams.errors import StreamsError
from penstock.streams.queries import TopologyPlan
from penstock.streams.registry import internal_topics
from penstock.streams.settings import StreamsSettings
from penstock.streams.topology import Internal, Role

logger = logging.getLogger("penstock.streams")


def open_admin(settings: StreamsSettings) -> Admin:
    properties = {"bootstrap.servers": settings.bootstrap, **settings.properties}
    return Admin(
        bootstrap=settings.bootstrap,
        client_id=settings.client_id,
        security=Security.from_properties(properties),
    )


def prepare_topics(settings: StreamsSettings, plan: TopologyPlan) -> None:
    """Create missing topics. Internal topics have as many partitions as the widest input."""
    with open_admin(settings) as admin:
        there = {each.name: each for each in admin.list_topics()}
        internal = internal_topics(plan)
        reads = [node.topic for query in plan.queries for node in query.inputs]
        outer = [topic for topic in dict.fromkeys(reads) if topic not in internal]
        writes = {topic for query in plan.queries if query.writes for topic in query.topics}
        missing = [topic for topic in outer if topic not in there and topic not in writes]
        if missing:
            raise StreamsError(
                f"there is no topic {', '.join(missing)} on {settings.bootstrap}: "
                f"`penstock topic create {missing[0]}` makes it"
            )
        widest = max((len(there[each].partitions) for each in outer if each in there), default=1)
        wanted = [_internal(topic, plan, settings, widest) for topic in internal]
        if settings.bad_records.value == "dead_letter":
            writes.add(settings.dead_letters)
        wanted += [
            NewTopic(topic, replication_factor=settings.replication_factor)
            for topic in sorted(writes)
            if topic not in internal
        ]
        new = [each for each in wanted if each.name not in there]
        for name, answer in (admin.create_topics(new) if new else {}).items():
            if isinstance(answer, KafkaError) and not isinstance(answer, TopicAlreadyExists):
                raise StreamsError(f"the topic {name} cannot be made: {answer}") from answer
            logger.info("made the topic %s", name)


def _internal(
    topic: str, plan: TopologyPlan, settings: StreamsSettings, partitions: int
) -> NewTopic:
    nodes = (path.sink for query in plan.queries for path in query.paths)
    node = next(each for each in nodes if isinstance(each, Internal) and each.topic == topic)
    is_table = node.role is Role.TABLE
    configs = {"cleanup.policy": "compact"} if is_table else {"retention.ms": "-1"}
    factor = settings.replication_factor
    return NewTopic(topic, partitions=partitions, replication_factor=factor, configs=configs)
