"""The only door to the authorizer: API handlers ask here what a request may do.

Without an authorizer every answer is yes. A handler asks for the needs of its API in
security/permissions.py, and for no others. Denials go to the audit log; where a list is only
filtered, or authorized operations are listed, nothing is denied (`quiet`).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.config.broker import BrokerConfig
from penstock.config.check import AUTHORIZER, SUPER_USERS
from penstock.controller.acls import acl_of
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.credentials.acls import CLUSTER_NAME, OPERATIONS_OF, AclOperation, AclResourceType
from penstock.credentials.principal import ANONYMOUS, Caller, Principal, plain_address
from penstock.security.audit import ALLOWED, DENIED, WINDOW_MS, AuditEntry, AuditLog
from penstock.security.authorizer import AccessDecision, Authorizer
from penstock.security.permissions import CLUSTER_ACTION, DESCRIBE_TOPIC, PERMISSIONS, Need
from penstock.wire.apis import APIS
from penstock.world import World

log = logging.getLogger("penstock.access")

ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
NO_SUPER_USER = (
    f"{AUTHORIZER} is set, but nobody may do anything: there is no super user and no ACL. Add the"
    f" line {SUPER_USERS}=User:admin, with the principals of the nodes behind it (separated by ;),"
    f" or {ALLOW_EVERYONE}=true"
)
# To be super users, nodes need names that no client has.
LET_NODES_LOG_IN = (
    "let nodes log in to each other (sasl.mechanism.inter.broker.protocol,"
    " sasl.mechanism.controller.protocol, or certificates), and add their principals to"
    f" {SUPER_USERS} of every node"
)
_EVERY_OPERATION = {
    kind: sum(1 << operation for operation in operations)
    for kind, operations in OPERATIONS_OF.items()
}


class AccessRequest(Protocol):
    """A request, as far as access is concerned."""

    @property
    def caller(self) -> Caller: ...

    @property
    def api_key(self) -> int: ...


class AccessControl:
    """The access of all requests of a node. `generation` grows with each change of the rules."""

    def __init__(
        self, world: World, config: BrokerConfig, image: Image, *, is_loaded: bool = False
    ) -> None:
        """Follow the ACLs from an image on; until `open`, they count if the image `is_loaded`."""
        self._timers, self._clock = world.timers, world.clock
        self._authorizer: Authorizer | None = None
        if config.text(AUTHORIZER):
            texts = config.text(SUPER_USERS).split(";")
            self._authorizer = Authorizer(
                [Principal.parse(text.strip()) for text in texts if text.strip()],
                allow_without_acls=config.boolean(ALLOW_EVERYONE),
            )
        self._hinted = False
        self._logs_grants = config.boolean("audit.grants")
        self._audit = AuditLog(world.clock.wall_ms, self._begin_audit_window)
        self._change(image, image.acls)
        if is_loaded:
            self.open()

    @property
    def enabled(self) -> bool:
        """Return whether there is an authorizer."""
        return self._authorizer is not None

    @property
    def admits_nobody(self) -> bool:
        return self._authorizer is not None and self._authorizer.admits_nobody

    @property
    def generation(self) -> int:
        return 0 if self._authorizer is None else self._authorizer.generation

    def _begin_audit_window(self) -> None:
        self._timers.at(self._clock.mono_ms() + WINDOW_MS, self._end_audit_window)

    def _end_audit_window(self) -> None:
        self._hinted = False
        self._audit.end_window()

    def _hint(self, caller: Caller) -> None:
        """Name the setting that a node of this cluster lacks, once per window."""
        if not self._hinted:
            self._hinted = True
            log.warning(
                "%s at %s may not act as a node of this cluster. If it is one, %s",
                caller.principal,
                caller.host,
                LET_NODES_LOG_IN
                if caller.principal == ANONYMOUS
                else f"add it to {SUPER_USERS} of every node: ...;{caller.principal}",
            )

    # -- ACLs

    def open(self) -> None:
        """Let ACLs count: the image has all that were committed at the start."""
        if self._authorizer is not None and not self._authorizer.loaded:
            self._authorizer.end_load()

    def follow(self, image: Image, delta: Delta) -> None:
        self._change(image, delta.acls)

    def _change(self, image: Image, acl_ids: Iterable[bytes]) -> None:
        ids = tuple(acl_ids)
        if self._authorizer is None or not ids:
            return
        records = ((each, image.acls[each]) for each in ids if each in image.acls)
        added = {
            acl_id: acl_of(record)._replace(host=plain_address(record.host))
            for acl_id, record in records
        }
        self._authorizer.change(added, ids)

    # -- questions

    def allows(self, request: AccessRequest, need: Need, name: str, *, quiet: bool = False) -> bool:
        """Return whether the caller of a request may do this with a resource of this name."""
        if self._authorizer is None:
            return True
        assert need in PERMISSIONS[request.api_key].parts, "a handler asks for what its API needs"
        decision = self._authorizer.decide(request.caller, *need, name)
        if self._logs_grants or not (decision.allowed or quiet):
            self._note(request, need, name, decision, quiet=quiet)
        return decision.allowed

    def allows_on_cluster(self, request: AccessRequest, need: Need, *, quiet: bool = False) -> bool:
        return self.allows(request, need, CLUSTER_NAME, quiet=quiet)

    def allows_any(self, request: AccessRequest, need: Need) -> bool:
        """Return whether the caller may do this with some resource of the type."""
        if self._authorizer is None:
            return True
        assert need in PERMISSIONS[request.api_key].parts, "a handler asks for what its API needs"
        decision = self._authorizer.decide_any(request.caller, *need)
        self._note(request, need, "(any)", decision)
        return decision.allowed

    def allows_whole(self, request: AccessRequest, operations: tuple[AclOperation, ...]) -> bool:
        """Return whether the caller may perform one of these operations on the cluster; with none
        of them, every caller may."""
        if self._authorizer is None:
            return True
        for operation in operations:
            need = Need(operation, AclResourceType.CLUSTER)
            decision = self._authorizer.decide(request.caller, *need, CLUSTER_NAME)
            is_last = operation is operations[-1]
            self._note(request, need, CLUSTER_NAME, decision, quiet=not is_last)
            if decision.allowed:
                return True
        return not operations

    def allowed_names(
        self, request: AccessRequest, need: Need, names: Iterable[str], *, quiet: bool = False
    ) -> frozenset[str]:
        """Return the names of the resources that the caller may do this with."""
        return frozenset(
            name for name in dict.fromkeys(names) if self.allows(request, need, name, quiet=quiet)
        )

    def visible_topics(self, caller: Caller) -> Callable[[str], bool] | None:
        """Return a function that tells whether the caller may describe a topic; None if every
        caller may."""
        authorizer = self._authorizer
        if authorizer is None:
            return None
        return lambda name: authorizer.decide(caller, *DESCRIBE_TOPIC, name).allowed

    def operations(self, request: AccessRequest, kind: AclResourceType, name: str) -> int:
        """Return the operations that the caller may perform on a resource, as bits."""
        if self._authorizer is None:
            return _EVERY_OPERATION[kind]
        return self._authorizer.operations(request.caller, kind, name)

    # -- the audit log

    def note_login(
        self, caller: Caller, mechanism: str, listener: str, failure: str | None = None
    ) -> None:
        """Write a login to the audit log; of a failed one, the caller is still anonymous."""
        verdict = ALLOWED if failure is None else DENIED
        rule = failure or "its proof was right"
        entry = AuditEntry("Login", mechanism, f"LISTENER:{listener}", verdict, rule)
        self._audit.write(caller, entry)

    def _note(
        self,
        request: AccessRequest,
        need: Need,
        name: str,
        decision: AccessDecision,
        *,
        quiet: bool = False,
    ) -> None:
        if not (self._logs_grants if decision.allowed else not quiet):
            return
        if need == CLUSTER_ACTION and not decision.allowed:
            self._hint(request.caller)
        entry = AuditEntry(
            APIS[request.api_key].name,
            need.operation.name,
            f"{need.kind.name}:{name}",
            ALLOWED if decision.allowed else DENIED,
            decision.rule_text,
        )
        self._audit.write(request.caller, entry)
