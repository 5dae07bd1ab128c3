"""Moves between directories that a stop has interrupted: what a start makes of their traces.

A copy that had taken over wins against the original, which a crash left under the same name. A copy
that had not is thrown away, and the move begins anew.
"""

import logging
from typing import TYPE_CHECKING

from penstock.broker.directory import Directory
from penstock.log.checkpoints import read_whole
from penstock.log.directory import MOVED_FROM_FILE, Kind, PartitionDirectory
from penstock.model import TopicPartition, id_to_text
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.moves")

Entries = dict[Directory, list[PartitionDirectory]]
Wishes = list[tuple[TopicPartition, Directory]]


def settle_moves(broker: "Broker", entries: Entries) -> Wishes:
    """Before the partitions are loaded: takes out of `entries` what counts no more, and tells
    which partitions were on their way, and where to. Waits for the disks."""
    wishes: Wishes = []
    for directory, listed in list(entries.items()):
        try:
            for entry in list(listed):
                if entry.kind is Kind.FUTURE:
                    wishes.append((entry.partition, directory))
                    broker.hosting.retire_now(directory, entry)
                    listed.remove(entry)
                elif entry.kind is Kind.LIVE:
                    _settle(broker, directory, entry, entries)
        except DiskFailed as failure:
            directory.take_offline(failure)
            del entries[directory]
    return wishes


def _settle(
    broker: "Broker", directory: Directory, entry: PartitionDirectory, all_: Entries
) -> None:
    marker = f"{entry.name}/{MOVED_FROM_FILE}"
    if not directory.disk.exists(marker):
        return
    moved_from = (read_whole(directory.disk, marker) or b"").decode()
    for other, listed in all_.items():
        if other is not directory and id_to_text(other.directory_id) == moved_from:
            for double in [each for each in listed if each.name == entry.name]:
                log.info("%s had moved to %s", entry.partition, directory.disk.root)
                broker.hosting.retire_now(other, double)
                listed.remove(double)
    directory.disk.remove_now(marker)


def begin_anew(broker: "Broker", wishes: Wishes) -> None:
    """After the partitions are loaded."""
    for (topic, index), directory in wishes:
        partition = broker.hosting.by_name.get(topic, {}).get(index)
        if partition is None or partition.directory.failed or directory.failed:
            log.warning("%s-%d does not move to %s any more", topic, index, directory.disk.root)
        else:
            broker.moves.ask(partition, directory)
