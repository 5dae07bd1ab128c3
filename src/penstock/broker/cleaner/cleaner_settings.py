"""The settings log.cleaner.* as plain values."""

from typing import NamedTuple

from penstock.broker.cleaner.dirty_ratio import Budget
from penstock.config.broker import BrokerConfig
from penstock.log.compaction.order import MAP_BYTES_PER_KEY


class CleanerSettings(NamedTuple):
    enabled: bool
    threads: int
    backoff_ms: int
    map_bytes_max: int
    map_load_max: float
    io_bytes_per_second_max: float

    @classmethod
    def of(cls, config: BrokerConfig) -> "CleanerSettings":
        return cls(
            enabled=config.boolean("log.cleaner.enable"),
            threads=config.integer("log.cleaner.threads"),
            backoff_ms=config.integer("log.cleaner.backoff.ms"),
            map_bytes_max=config.integer("log.cleaner.dedupe.buffer.size"),
            map_load_max=config.number("log.cleaner.io.buffer.load.factor"),
            io_bytes_per_second_max=config.number("log.cleaner.io.max.bytes.per.second"),
        )

    def budget(self) -> Budget:
        """Return the share of one thread."""
        threads = max(1, self.threads)
        return Budget(
            max(MAP_BYTES_PER_KEY * 2, self.map_bytes_max // threads),
            self.map_load_max,
            self.io_bytes_per_second_max / threads,
        )
