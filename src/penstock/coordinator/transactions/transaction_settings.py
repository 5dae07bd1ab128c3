"""The settings of the transaction coordinator, read once: none changes while a broker runs."""

from dataclasses import dataclass

from penstock.config.broker import BrokerConfig


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    timeout_ms_max: int = 900_000
    # A transaction outlives its timeout by at most this, also when its abort cannot be written.
    abort_interval_ms: int = 10_000
    id_expiration_ms: int = 604_800_000
    expiration_interval_ms: int = 3_600_000
    two_phase_commit: bool = True

    @classmethod
    def of(cls, config: BrokerConfig) -> "TransactionSettings":
        whole = config.integer
        return cls(
            timeout_ms_max=whole("transaction.max.timeout.ms"),
            abort_interval_ms=whole("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            id_expiration_ms=whole("transactional.id.expiration.ms"),
            expiration_interval_ms=whole(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
            two_phase_commit=config.boolean("transaction.two.phase.commit.enable"),
        )
