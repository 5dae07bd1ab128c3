"""The settings of the transaction coordinator, read once: none changes while a broker runs."""

from dataclasses import dataclass

from penstock.config.key_fields import configured

ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRATION_INTERVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    timeout_ms_max: int = configured("transaction.max.timeout.ms")
    # A transaction outlives its timeout by at most this, also when its abort cannot be written.
    abort_interval_ms: int = configured(ABORT_INTERVAL)
    id_expiration_ms: int = configured("transactional.id.expiration.ms")
    expiration_interval_ms: int = configured(EXPIRATION_INTERVAL)
    two_phase_commit: bool = configured("transaction.two.phase.commit.enable")
