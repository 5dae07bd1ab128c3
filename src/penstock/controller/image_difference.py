"""The difference of two images, for nodes whose image a snapshot has replaced."""

from penstock.controller.delta import Delta
from penstock.controller.image import Image, Topic


def difference_of(before: Image, after: Image) -> Delta:
    """Return the changes from one image to another, as records between them would give them.

    A topic that was deleted and created again under its name is in both lists.
    """
    created: list[str] = []
    deleted: list[tuple[str, bytes]] = []
    changed: list[tuple[str, tuple[int, ...]]] = []
    for name, topic in before.topics.items():
        kept = after.topics.get(name)
        if kept is None or kept.topic_id != topic.topic_id:
            deleted.append((name, topic.topic_id))
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known.topic_id != topic.topic_id:
            created.append(name)
            known = None
        partitions = _changed_partitions(known, topic)
        if partitions:
            changed.append((name, partitions))
    configs = dict.fromkeys([*before.configs, *after.configs])
    brokers = dict.fromkeys([*before.brokers, *after.brokers])
    scram = dict.fromkeys([*before.scram, *after.scram])
    acls = dict.fromkeys([*before.acls, *after.acls])
    return Delta(
        created_topics=tuple(created),
        deleted_topics=tuple(deleted),
        changed_partitions=tuple(changed),
        configs=tuple(
            each for each in configs if before.configs.get(each) != after.configs.get(each)
        ),
        brokers=tuple(
            each for each in brokers if before.brokers.get(each) != after.brokers.get(each)
        ),
        scram=tuple(each for each in scram if before.scram.get(each) != after.scram.get(each)),
        acls=tuple(each for each in acls if before.acls.get(each) != after.acls.get(each)),
    )


def _changed_partitions(before: Topic | None, after: Topic) -> tuple[int, ...]:
    if before is None:
        return tuple(after.partitions)
    return tuple(
        index
        for index, partition in after.partitions.items()
        if before.partitions.get(index) != partition
    )
