"""`penstock txn abort ID`: the open transaction of a transactional id, by its coordinator."""

from typing import TYPE_CHECKING

from penstock.cli.access import Access
from penstock.cli.admin import connect
from penstock.cli.confirmation import confirm
from penstock.cli.known_names import nearest
from penstock.cli.output import CommandFailed, Format, Json, note, print_rows, report
from penstock.cli.partitions import partitions_text
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.errors import KafkaError, TransactionalIdNotFound

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.coordinator_values import TransactionDescription

ONGOING = "Ongoing"
DECIDED = ("PrepareCommit", "PrepareAbort")


def abort_open(
    access: Access, transactional_id: str, form: Format, *, yes: bool, dry_run: bool
) -> None:
    """Abort what the id has open; its producer is fenced. Report, or say why nothing was done."""
    with connect(access) as admin:
        found = _open_transaction(admin, transactional_id)
        if dry_run:
            row: dict[str, Json] = {
                "transactional_id": transactional_id,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "partitions": partitions_text(found.partitions),
            }
            print_rows(form, tuple(row), [row])
            note("nothing was changed; --yes aborts this transaction and fences its producer")
            return
        confirm(
            f"Abort the transaction of {transactional_id} at {access.where}, and fence its "
            "producer?",
            yes=yes,
        )
        fenced = admin.transactions.fence([transactional_id])[transactional_id]
    failed = {transactional_id: fenced} if isinstance(fenced, KafkaError) else {}
    report(form, [] if failed else [transactional_id], failed, "aborted")


def _open_transaction(admin: "Admin", transactional_id: str) -> "TransactionDescription":
    found = admin.transactions.describe([transactional_id])[transactional_id]
    if isinstance(found, TransactionalIdNotFound):
        listed = admin.transactions.list_all(TransactionFilter())
        near = nearest(transactional_id, (each.transactional_id for each in listed))
        hint = f"did you mean {near}?" if near else "`penstock txn list` shows which there are"
        raise CommandFailed(f"there is no transactional id {transactional_id}; {hint}")
    if isinstance(found, KafkaError):
        raise found
    if found.state in DECIDED:
        raise CommandFailed(
            f"{transactional_id} is in {found.state}: its end is decided, and its markers are "
            "being written"
        )
    if found.state != ONGOING:
        raise CommandFailed(f"{transactional_id} has no open transaction: it is {found.state}")
    return found
