"""CreateAcls and DeleteAcls. A binding is stored once; each entry has its own answer."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from penstock.controller.image import Image
from penstock.controller.seeded_random import SeededRandom
from penstock.controller.settings import RECORDS_PER_REQUEST_MAX
from penstock.credentials.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    known_member,
)
from penstock.credentials.principal import Principal
from penstock.effects import Outcome
from penstock.errors import InvalidRequest, KafkaError, PolicyViolation
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31
from penstock.wire.records.metadata import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


def acl_of(record: AccessControlEntryRecord) -> Acl:
    return Acl(
        known_member(AclResourceType, record.resource_type),
        record.resource_name,
        record.principal,
        known_member(AclOperation, record.operation),
        known_member(AclPermission, record.permission_type),
        record.host,
        known_member(PatternType, record.pattern_type),
    )


def filter_of(wanted: k29.DescribeAclsRequest | k31.DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request; raise InvalidRequest for one of a newer client."""
    found = AclFilter(
        known_member(AclResourceType, wanted.resource_type_filter),
        wanted.resource_name_filter,
        wanted.principal_filter,
        known_member(AclOperation, wanted.operation),
        known_member(AclPermission, wanted.permission_type),
        wanted.host_filter,
        known_member(PatternType, wanted.pattern_type_filter),
    )
    if found.has_unknown:
        raise InvalidRequest("The filter has an element that this server does not know.")
    return found


class AclRequests:
    """Decides about ACLs; holds no state but what it was given."""

    def __init__(self, image: Image, chance: SeededRandom) -> None:
        self._image = image
        self._chance = chance

    def create(self, request: k30.CreateAclsRequest) -> Outcome:
        stored = self._stored({each.resource_name for each in request.creations})
        records: list[AccessControlEntryRecord] = []
        results: list[k30.AclCreationResult] = []
        for wanted in request.creations:
            try:
                acl = _checked(wanted)
            except KafkaError as error:
                results.append(
                    k30.AclCreationResult(error_code=error.code, error_message=error.message)
                )
                continue
            results.append(k30.AclCreationResult(error_message=None))
            if acl not in stored:
                stored.add(acl)
                records.append(_record(self._chance.uuid(), acl))
        return Outcome(records, k30.CreateAclsResponse(results=results))

    def _stored(self, names: set[str]) -> set[Acl]:
        """Return the stored ACLs whose patterns have these names."""
        return {
            acl_of(record) for record in self._image.acls.values() if record.resource_name in names
        }

    def delete(self, request: k31.DeleteAclsRequest) -> Outcome:
        removed: dict[bytes, None] = {}
        results: list[k31.DeleteAclsFilterResult] = []
        for wanted in request.filters:
            try:
                found = find_acls(self._image.acls, filter_of(wanted))
                _check_count(removed, found)
            except KafkaError as error:
                results.append(
                    k31.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
                )
                continue
            removed.update(dict.fromkeys(found))
            matching = [_match(acl) for acl in found.values()]
            results.append(k31.DeleteAclsFilterResult(error_message=None, matching_acls=matching))
        records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]
        return Outcome(records, k31.DeleteAclsResponse(filter_results=results))


def find_acls(
    acls: Mapping[bytes, AccessControlEntryRecord], wanted: AclFilter
) -> dict[bytes, Acl]:
    """Return the ACLs that a filter finds, by their ids."""
    name, principal = wanted.resource_name, wanted.principal
    covers = wanted.pattern_type is PatternType.MATCH
    found: dict[bytes, Acl] = {}
    for acl_id, record in acls.items():
        # A record is compared faster than an ACL is made, and most are about other names.
        if principal is None or record.principal == principal:
            pattern = record.resource_name
            if name is not None and pattern != name:
                if not covers or not (pattern == WILDCARD or name.startswith(pattern)):
                    continue
            acl = acl_of(record)
            if wanted.finds(acl):
                found[acl_id] = acl
    return found


def _check_count(removed: Mapping[bytes, None], found: Iterable[bytes]) -> None:
    if len(removed.keys() | found) > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation."
        )


def _checked(wanted: k30.AclCreation) -> Acl:
    """Return the ACL of a request; raise InvalidRequest for one that cannot be stored."""
    acl = Acl(
        known_member(AclResourceType, wanted.resource_type),
        wanted.resource_name,
        wanted.principal,
        known_member(AclOperation, wanted.operation),
        known_member(AclPermission, wanted.permission_type),
        wanted.host,
        known_member(PatternType, wanted.resource_pattern_type),
    )
    _check_stored(acl.resource_type, "resourceType")
    if acl.resource_type is AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    _check_stored(acl.pattern_type, "patternType", (PatternType.LITERAL, PatternType.PREFIXED))
    _check_stored(acl.operation, "operation")
    _check_stored(acl.permission, "permissionType")
    if not acl.resource_name:
        raise InvalidRequest("Resource name should not be empty")
    try:
        Principal.parse(acl.principal)
    except ValueError as problem:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}`: {problem}"
        ) from None
    return acl


def _check_stored(member: IntEnum, what: str, allowed: Sequence[IntEnum] | None = None) -> None:
    known = member.name not in ("UNKNOWN", "ANY") if allowed is None else member in allowed
    if not known:
        raise InvalidRequest(f"Invalid {what} {member.name}")


def _record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _match(acl: Acl) -> k31.DeleteAclsMatchingAcl:
    return k31.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
