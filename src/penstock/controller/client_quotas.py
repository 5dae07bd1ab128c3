"""AlterClientQuotas and DescribeClientQuotas: quotas of users, client ids and addresses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from penstock.controller.image import Image
from penstock.controller.settings import RECORDS_PER_REQUEST_MAX
from penstock.effects import Outcome
from penstock.errors import InvalidRequest, KafkaError, PolicyViolation, UnsupportedVersion
from penstock.security.quotas.quota_table import (
    CLIENT_ID,
    CONNECTION,
    FETCH,
    IP,
    MUTATION,
    PRODUCE,
    REQUEST,
    USER,
)
from penstock.wire.messages import k48_describe_client_quotas as k48
from penstock.wire.messages import k49_alter_client_quotas as k49
from penstock.wire.records.metadata import ClientQuotaRecord
from penstock.wire.structures import EntityData

TYPES = (USER, CLIENT_ID, IP)
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
FRACTION_MAX = 1e-6
# The largest value of each key; None for keys that take fractions.
OF_CLIENTS: Mapping[str, int | None] = {
    PRODUCE: LONG_MAX,
    FETCH: LONG_MAX,
    REQUEST: None,
    MUTATION: None,
}
OF_ADDRESSES: Mapping[str, int | None] = {CONNECTION: INT_MAX}
EXACT, DEFAULT, ANY = 0, 1, 2  # how a name matches

Entity = tuple[tuple[str, str | None], ...]  # type and name of each part; None is the default


def entity_of(parts: Sequence[EntityData]) -> Entity:
    """Return the parts in one order, each type once: the last one counts, as in Kafka."""
    return tuple(sorted({each.entity_type: each.entity_name for each in parts}.items()))


def quotas_of(image: Image) -> dict[Entity, dict[str, float]]:
    found: dict[Entity, dict[str, float]] = {}
    for record in image.client_quotas.values():
        found.setdefault(entity_of(record.entity), {})[record.key] = record.value
    return found


# Changes


class ClientQuotaRequests:
    """Decides about quotas; holds no state but what it was given."""

    def __init__(self, image: Image) -> None:
        self._quotas = quotas_of(image)

    def alter(self, request: k49.AlterClientQuotasRequest) -> Outcome:
        records: list[ClientQuotaRecord] = []
        answers: dict[Entity, k49.ResponseEntryData] = {}
        for entry in request.entries:
            entity = entity_of(entry.entity)
            answer = k49.ResponseEntryData(entity=_parts(entity), error_message=None)
            try:
                if entity in answers:
                    raise InvalidRequest(f"Ignoring duplicate entity {_text(entity)}")
                records += self._changes(entity, entry.ops)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            answers[entity] = answer
        if len(records) > RECORDS_PER_REQUEST_MAX:
            raise PolicyViolation(
                f"The request would write {len(records)} records; "
                f"at most {RECORDS_PER_REQUEST_MAX} are allowed."
            )
        reply = k49.AlterClientQuotasResponse(entries=list(answers.values()))
        return Outcome(() if request.validate_only else records, reply)

    def _changes(self, entity: Entity, operations: Sequence[k49.OpData]) -> list[ClientQuotaRecord]:
        for key, times in Counter(each.key for each in operations).items():
            if times > 1:
                raise InvalidRequest(
                    f"Duplicate quota key {key} not updating quota for this entity {_text(entity)}"
                )
        largest = _keys_for(entity)
        now = self._quotas.get(entity, {})
        records = []
        for each in operations:
            if each.remove:
                if each.key in now:
                    removal = ClientQuotaRecord(entity=_parts(entity), key=each.key, remove=True)
                    records.append(removal)
                continue
            _check_value(largest, each.key, each.value)
            if now.get(each.key) != each.value:
                change = ClientQuotaRecord(entity=_parts(entity), key=each.key, value=each.value)
                records.append(change)
        return records


def _keys_for(entity: Entity) -> Mapping[str, int | None]:
    """Return the keys that an entity may have; raise InvalidRequest for no legal entity."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return OF_CLIENTS
    if len(names) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity should not be combined with User or "
            "ClientId"
        )
    address = names[IP]
    if address is not None:
        try:
            ip_address(address)
        except ValueError:
            raise InvalidRequest(
                f"{address} is not a valid IP or resolvable host. Name the address itself."
            ) from None
    return OF_ADDRESSES


def _check_value(largest: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in largest:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0:  # NaN is not, either
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    limit = largest[key]
    if limit is None:
        return
    if value > limit:
        kind = "an INT" if limit == INT_MAX else "a LONG"
        raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
    if value % 1 > FRACTION_MAX:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def _parts(entity: Entity) -> list[EntityData]:
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]


def _text(entity: Entity) -> str:
    return ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity)


# Questions


def describe(
    image: Image, request: k48.DescribeClientQuotasRequest
) -> k48.DescribeClientQuotasResponse:
    """Return the quotas of the entities that match. Raise InvalidRequest for no legal filter."""
    named, present = _filter(request.components)
    found = []
    for entity, values in quotas_of(image).items():
        names = dict(entity)
        if request.strict and len(names) != len(named) + len(present):
            continue
        if present <= names.keys() and all(
            kind in names and names[kind] == name for kind, name in named.items()
        ):
            shown = [k48.ValueData(key=key, value=value) for key, value in values.items()]
            found.append(k48.EntryData(entity=_parts(entity), values=shown))
    return k48.DescribeClientQuotasResponse(entries=found, error_message=None)


def _filter(components: Sequence[k48.ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """Return the names by type, None for the default, and the types of any name."""
    named: dict[str, str | None] = {}
    present: set[str] = set()
    for each in components:
        kind, how = each.entity_type, each.match_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in named or kind in present:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        if how not in _MATCH_NAMES:
            raise InvalidRequest(f"Unknown match type {how}")
        if how == EXACT and each.match is None:
            raise InvalidRequest(
                "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
        if how != EXACT and each.match is not None:
            raise InvalidRequest(
                f"Request specified {_MATCH_NAMES[how]}, but also specified a match string."
            )
        if how == ANY:
            present.add(kind)
        else:
            named[kind] = each.match
    if IP in {*named, *present} and len(named) + len(present) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return named, present


_MATCH_NAMES = {
    EXACT: "MATCH_TYPE_EXACT",
    DEFAULT: "MATCH_TYPE_DEFAULT",
    ANY: "MATCH_TYPE_SPECIFIED",
}
