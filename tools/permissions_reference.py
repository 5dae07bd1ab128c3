"""Writes the reference of permissions, docs/reference/permissions.md, from the table of the node.

python -m tools.permissions_reference > docs/reference/permissions.md
"""

from collections.abc import Iterable

from penstock.broker.handlers import HANDLERS
from penstock.credentials.acls import AclOperation, AclResourceType
from penstock.security.permissions import PERMISSIONS, ApiPermissions
from penstock.wire.apis import APIS, CONTROLLER, OWN_FROM

_HEAD = """\
# Permissions

Made from the code by `make reference`; do not edit.

With an authorizer (`authorizer.class.name`), a caller needs these permissions. **Whole**: without
one of these operations on the cluster, the request gets CLUSTER_AUTHORIZATION_FAILED. **Of each
resource**: a resource without permission gets the error of its type, before the node looks whether
it exists; lists leave it out. Several operations of one column are alternatives, or for different
parts of the request, as in Apache Kafka. A super user needs none of them.

READ, WRITE, DELETE and ALTER allow DESCRIBE as well, ALTER_CONFIGS allows DESCRIBE_CONFIGS. A deny
denies its own operation only, and is stronger than every allow. `penstock acl explain` names the
rule that decides.

| API | listeners | whole | of each resource |
|---|---|---|---|
"""

_AUDIT = """
## The audit log

The logger `penstock.audit` writes a JSON line for each denied request, and with `audit.grants=true`
for each allowed one. Of one principal at one address ten lines a minute are written; one line
with `left_out` has the number of the others.

| field | meaning |
|---|---|
| `time` | when, in UTC |
| `principal`, `address` | the caller |
| `api` | the request |
| `operation`, `resource` | the question, such as `READ` and `TOPIC:orders` |
| `verdict` | `allowed` or `denied` |
| `rule` | the ACL that decided, or `super.users`, `allow.everyone.if.no.acl.found`, or none |
| `left_out` | the number of lines that were not written |
"""


def reference() -> str:
    """Return the whole page."""
    rows = (_row(key) for key in sorted(HANDLERS) if key < OWN_FROM)
    return _HEAD + "\n".join(rows) + "\n" + _AUDIT


def _row(key: int) -> str:
    api, needs = APIS[key], PERMISSIONS[key]
    listeners = "controllers" if api.listeners == CONTROLLER else "clients"
    if len(api.listeners) > 1:
        listeners = "both"
    return f"| {api.name} ({key}) | {listeners} | {_whole(needs)} | {_parts(needs)} |"


def _whole(needs: ApiPermissions) -> str:
    text = _joined(needs.whole)
    if needs.on_controller is not None:
        text += f"{'; ' if text else ''}at a controller {_joined(needs.on_controller)}"
    return text


def _joined(operations: Iterable[AclOperation]) -> str:
    return " or ".join(each.name for each in operations)


def _parts(needs: ApiPermissions) -> str:
    found: dict[AclResourceType, list[str]] = {}
    for need in needs.parts:
        found.setdefault(need.kind, []).append(need.operation.name)
    return "; ".join(f"{kind.name}: {', '.join(names)}" for kind, names in found.items())


if __name__ == "__main__":
    print(reference(), end="")
