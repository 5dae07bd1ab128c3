"""Secrets in metadata records, which dumps leave out: keys of users, passwords of brokers."""

from penstock.config.table import find_broker_key
from penstock.wire.records.metadata import ConfigRecord, UserScramCredentialRecord

HIDDEN = "[hidden]"
BROKER = 4  # the type of the resource
CREDENTIAL_FIELDS = ("salt", "stored_key", "server_key")


def secret_fields(record: object) -> tuple[str, ...]:
    """Return the names of the fields whose values are not shown. The value of an unknown key of a
    broker may be one."""
    match record:
        case UserScramCredentialRecord():
            return CREDENTIAL_FIELDS
        case ConfigRecord(resource_type=kind, value=value) if kind == BROKER and value:
            key = find_broker_key(record.name)
            return ("value",) if key is None or key.sensitive else ()
    return ()
