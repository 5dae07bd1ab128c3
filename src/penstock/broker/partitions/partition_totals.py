"""Sums of the counters of partitions."""

from penstock.broker.partitions.partition import Partition


class PartitionTotals:
    """The counters of some partitions, summed."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "produces",
        "records_in",
    )

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, partition: Partition) -> None:
        log = partition.log
        self.records_in += log.appended_records
        self.bytes_in += log.appended_bytes
        self.bytes_out += partition.bytes_out
        self.bytes_rejected += partition.bytes_rejected
        self.produces += partition.produces
        self.fetches += partition.fetches
        self.failed_produces += partition.failed_produces
        self.failed_fetches += partition.failed_fetches
