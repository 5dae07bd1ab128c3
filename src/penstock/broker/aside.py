"""Gives a directory another name, however often that has to be tried.

A disk may say that there was no room, or no file to be opened, when only the sync of the name did
not go through: the directory has its new name then, and another may have the old one by the time
of the next try.
"""

from penstock.log.directory import Kind, marked_name, read_metadata
from penstock.model import TopicPartition
from penstock.world import Disk, Entropy


def name_aside(partition: TopicPartition, entropy: Entropy) -> str:
    """What a partition's directory is called from when it leaves until it is removed."""
    return marked_name(partition, Kind.DELETED, entropy.uuid().hex())


def take_aside(disk: Disk, name: str, topic_id: bytes, aside: str, *, again: bool) -> bool:
    """Call `aside` what the directory `name` holds of this topic; `again` if that was tried before,
    with the same `aside`. True when it is durable, False if `name` is another topic's; FileLost if
    there is none. Waits for the disk."""
    if again and disk.exists(aside):
        disk.sync_everything_now()  # takes no room
        return True
    if read_metadata(disk, name) not in (None, topic_id):
        return False
    disk.rename_now(name, aside)
    return True
