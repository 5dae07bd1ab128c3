"""Renames a deleted directory, also in several attempts.

An attempt may fail after the rename, in the sync of the new name. By the next attempt, another
directory may have the old name.
"""

from penstock.log.directory import DirectoryKind, marked_name, read_metadata
from penstock.model import TopicPartition
from penstock.world import Disk, Entropy


def deleted_name(partition: TopicPartition, entropy: Entropy) -> str:
    """Return the name of a deleted partition's directory until its removal."""
    return marked_name(partition, DirectoryKind.DELETED, entropy.uuid().hex())


def rename_deleted(disk: Disk, name: str, topic_id: bytes, aside: str, *, again: bool) -> bool:
    """Rename the directory `name` of this topic to `aside`, and wait for the disk.

    Return True when the new name is durable, False if `name` belongs to another topic. Raise
    FileLost if there is no such directory. `again` follows an attempt with the same `aside`.
    """
    if again and disk.exists(aside):
        disk.sync_everything_now()  # takes no room
        return True
    if read_metadata(disk, name) not in (None, topic_id):
        return False
    disk.rename_now(name, aside)
    return True
