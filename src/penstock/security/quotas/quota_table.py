"""The quotas in force, and which of them a client has.

The most specific entity with a quota of a kind counts. The meter of that quota has the names that
its entity has: all connections of a user share one meter under a quota of users, and each client id
of that user has a meter of its own under a quota of users and client ids.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.wire.records.metadata import ClientQuotaRecord

PRODUCE = "producer_byte_rate"
FETCH = "consumer_byte_rate"
REQUEST = "request_percentage"
MUTATION = "controller_mutation_rate"
CONNECTION = "connection_creation_rate"

USER, CLIENT_ID, IP = "user", "client-id", "ip"
DEFAULT = ""  # the name of all without a quota of their own; a stored name is never empty

MeterNames = tuple[str | None, str | None]  # user and client id; None is no part of an entity


class MeteredQuota(NamedTuple):
    """A limit, and the names of the meter that it is held against."""

    limit: float
    meter: MeterNames


class QuotaTable:
    """Quotas by kind and entity."""

    def __init__(self, records: Iterable[ClientQuotaRecord] = ()) -> None:
        self._limits: dict[str, dict[MeterNames, float]] = {}
        self._addresses: dict[str, float] = {}
        for record in records:
            names = {each.entity_type: each.entity_name or DEFAULT for each in record.entity}
            if IP in names:
                if record.key == CONNECTION:
                    self._addresses[names[IP]] = record.value
                continue
            entity = names.get(USER), names.get(CLIENT_ID)
            self._limits.setdefault(record.key, {})[entity] = record.value

    def limits(self, kind: str) -> bool:
        """Return whether any client has a quota of this kind."""
        return bool(self._addresses if kind == CONNECTION else self._limits.get(kind))

    def find(self, kind: str, user: str, client_id: str) -> MeteredQuota | None:
        """Return the quota of a client; None if it has none."""
        limits = self._limits.get(kind)
        if not limits:
            return None
        for entity, meter in (
            ((user, client_id), (user, client_id)),
            ((user, DEFAULT), (user, client_id)),
            ((user, None), (user, None)),
            ((DEFAULT, client_id), (user, client_id)),
            ((DEFAULT, DEFAULT), (user, client_id)),
            ((DEFAULT, None), (user, None)),
            ((None, client_id), (None, client_id)),
            ((None, DEFAULT), (None, client_id)),
        ):
            limit = limits.get(entity)
            if limit is not None:
                return MeteredQuota(limit, meter)
        return None

    def of_address(self, address: str) -> float | None:
        """Return how many connections per second an address may open."""
        limit = self._addresses.get(address)
        return self._addresses.get(DEFAULT) if limit is None else limit
