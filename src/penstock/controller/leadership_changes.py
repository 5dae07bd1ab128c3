"""Changes of partitions when a broker or one of its directories comes or goes."""

from collections.abc import Callable

from penstock.controller.elections import Electorate, change_partition
from penstock.controller.image import NO_LEADER, Image, PartitionImage
from penstock.controller.settings import ControllerSettings
from penstock.wire.records.metadata import PartitionChangeRecord


def changes_on_leaving(
    image: Image, settings: ControllerSettings, broker_id: int
) -> list[PartitionChangeRecord]:
    """Return the changes for a broker that is fenced or shuts down: other replicas take over. A
    partition without another one is without a leader until this broker returns."""
    electorate = Electorate(image, settings, removed=broker_id)
    return _changes(electorate, lambda partition: broker_id in partition.isr)


def changes_on_unregistration(
    image: Image, settings: ControllerSettings, broker_id: int
) -> list[PartitionChangeRecord]:
    """Return the changes for a broker whose registration ends."""
    electorate = Electorate(image, settings, removed=broker_id)
    return _changes(electorate, lambda partition: _is_complete(partition, broker_id))


def changes_on_return(
    image: Image,
    settings: ControllerSettings,
    broker_id: int,
    offline: frozenset[bytes] = frozenset(),
) -> list[PartitionChangeRecord]:
    """Return the changes for a broker that is unfenced: partitions without a leader may get it.
    `offline` are its directories that have just failed."""
    electorate = Electorate(image, settings, added=broker_id, offline=offline)
    return _changes(electorate, lambda partition: partition.leader == NO_LEADER)


def changes_on_new_incarnation(
    image: Image, settings: ControllerSettings, broker_id: int, *, clean: bool
) -> list[PartitionChangeRecord]:
    """Return the changes for a broker that has started again: the former incarnation leaves the
    in-sync sets.

    After a clean stop this is as with fencing, and the broker stays eligible where needed. Without
    one its logs may lack their end: the broker is neither in sync nor eligible. A partition without
    another complete replica keeps its last leader noted, and is led by it again. Without eligible
    leader replicas nothing but the in-sync set names complete replicas, and both stops are alike.
    """
    if clean or not image.eligible_leaders_enabled:
        return changes_on_leaving(image, settings, broker_id)
    electorate = Electorate(image, settings, crashed=broker_id)
    return _changes(electorate, lambda partition: _is_complete(partition, broker_id))


def changes_on_offline_directories(
    image: Image, settings: ControllerSettings, broker_id: int, offline: frozenset[bytes]
) -> list[PartitionChangeRecord]:
    """Return the changes for directories of a broker that have failed: their replicas leave the
    in-sync sets."""
    electorate = Electorate(image, settings, removed=broker_id)
    return _changes(
        electorate,
        lambda partition: (
            broker_id in partition.replicas and partition.directory_of(broker_id) in offline
        ),
    )


def leads_partitions(image: Image, broker_id: int) -> bool:
    """Return whether the broker leads at least one partition."""
    return any(partition.leader == broker_id for _, partition in image.partitions())


def _is_complete(partition: PartitionImage, broker_id: int) -> bool:
    return broker_id in partition.isr or broker_id in partition.eligible_leaders


def _changes(
    electorate: Electorate, concerned: Callable[[PartitionImage], bool]
) -> list[PartitionChangeRecord]:
    records = []
    for topic, partition in electorate.image.partitions():
        if concerned(partition):
            record = change_partition(electorate, topic, partition)
            if record is not None:
                records.append(record)
    return records
