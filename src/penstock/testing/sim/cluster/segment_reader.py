"""The batches of an open log, read from its simulated disk without warming a page."""

from penstock.log.directory import LOG, segment_file
from penstock.log.log import Log
from penstock.testing.sim.cluster.metadata_history import BatchHistory
from penstock.testing.sim.disk import SimDisk


def read_log(log: Log) -> BatchHistory:
    """Return all batches in the segments of a log."""
    history = BatchHistory()
    disk = log.disk
    assert isinstance(disk, SimDisk), "a simulated node has simulated disks"
    for segment in log.segments_from(0):
        path = segment_file(log.directory, segment.base_offset, LOG)
        history.append(disk.content(path)[: segment.size])
    return history
