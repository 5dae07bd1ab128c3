"""`penstock cert node|client|show|renew|reload`"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.number_limits import INT32_MAX
from penstock.cli.arguments.shared_options import on_cluster, with_format
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import describe_nodes
from penstock.cli.terminal.output import (
    CommandFailed,
    Row,
    WrongUsage,
    format_of,
    note,
    print_rows,
    report,
)
from penstock.client.values import (
    ConfigChange,
    ConfigValue,
    Operation,
    Resource,
    ResourceType,
)
from penstock.credentials.certificate import parse_certificate
from penstock.credentials.der import DerBroken
from penstock.credentials.stores import certificates_in
from penstock.errors import KafkaError
from penstock.security.distinguished_name import name_text

if TYPE_CHECKING:
    from penstock.cli.cert.authority_directory import AuthorityDirectory

app = typer.Typer(
    help="Certificates: of an authority of your own, and those that nodes use.",
    no_args_is_help=True,
)

LOCATION = "ssl.keystore.location"
DYNAMIC = 2  # the source of a value that was set for one broker
OWN_HOSTS = ("localhost", "127.0.0.1")
COLUMNS = ("file", "subject", "hosts", "ends", "days", "fingerprint")
DAY_MS = 24 * 3_600_000
RENEWED_DAYS_DEFAULT = 30

DirectoryOption = Annotated[
    Path, typer.Option("--directory", metavar="DIR", help="The files of the authority.")
]
DIRECTORY_DEFAULT = Path("certificates")
Owner = Annotated[str, typer.Argument(metavar="NAME", help="The subject, as in CN=NAME.")]


@app.command()
def node(
    name: Owner,
    *,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="A name or an address of the node; repeat it."),
    ] = None,
    directory: DirectoryOption = DIRECTORY_DEFAULT,
) -> None:
    """Write the key store of a node. The first command makes the authority, too."""
    from penstock.credentials.authority import CertificateSubject, is_host

    for each in hosts or ():
        if not is_host(each):
            raise WrongUsage(f"--host {each!r} is neither a name nor an address")
    files = _directory(directory)
    path = files.issue(CertificateSubject(name, tuple(dict.fromkeys(hosts or OWN_HOSTS))))
    note(f"copy to the node {name}, and never {directory}/ca.key:")
    print(path)
    print(files.trusted)


@app.command()
def client(name: Owner, *, directory: DirectoryOption = DIRECTORY_DEFAULT) -> None:
    """Write the key store of a client, and files with its settings."""
    from penstock.credentials.authority import CertificateSubject

    files = _directory(directory)
    path = files.issue(CertificateSubject(name))
    java = path.with_suffix(".properties")
    rdkafka = path.with_suffix(".librdkafka.properties")
    store, trusted = path.absolute(), files.trusted.absolute()
    files.write(
        java,
        "security.protocol=SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={store}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n",
    )
    files.write(
        rdkafka,
        "security.protocol=ssl\n"
        f"ssl.certificate.location={store}\nssl.key.location={store}\n"
        f"ssl.ca.location={trusted}\n",
    )
    note(f"the client User:CN={name} uses")
    for each in (path, files.trusted, java, rdkafka):
        print(each)


@app.command()
@with_format
def show(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="PEM; default: all.")
    ] = None,
    *,
    directory: DirectoryOption = DIRECTORY_DEFAULT,
) -> None:
    """Show certificates: their subjects, hosts, ends and fingerprints. Keys are not shown."""
    files = _directory(directory)
    chosen = paths or [each for each in (files.trusted, *files.stores()) if each.exists()]
    if not chosen:
        raise CommandFailed(f"{directory} has no certificate; `penstock cert node NAME` makes one")
    rows = [row for each in chosen for row in _certificate_rows(each, files.read(each))]
    print_rows(format_of(context), COLUMNS, rows)


@app.command()
def renew(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: those that end soon.")
    ] = None,
    *,
    days: Annotated[
        int, typer.Option("--days", min=0, help="Without names: those that end within these days.")
    ] = RENEWED_DAYS_DEFAULT,
    authority: Annotated[
        bool, typer.Option("--authority", help="Make a new authority; the former stays trusted.")
    ] = False,
    directory: DirectoryOption = DIRECTORY_DEFAULT,
) -> None:
    """Write new keys and certificates for the same subjects. Nodes take them by `cert reload`."""
    files = _directory(directory)
    if authority:
        if names:
            raise WrongUsage("--authority renews the authority; renew certificates afterwards")
        files.add_authority()
        note("copy to all nodes and clients, and reload, before a certificate is renewed:")
        print(files.trusted)
        return
    if names:
        chosen = [files.store_of(each) for each in names]
    else:
        chosen = [each for each in files.stores() if _ends_within(files.read(each), days)]
    for each in chosen:
        files.renew(each)
        print(each)
    if not chosen:
        note(f"no certificate in {directory} ends within {days} days")


@app.command()
@on_cluster
def reload(
    context: typer.Context,
    brokers: Annotated[
        list[int] | None,
        typer.Argument(metavar="[ID]...", max=INT32_MAX, help="Default: all brokers."),
    ] = None,
) -> None:
    """Read the key stores and trust stores of brokers again. A bad store changes nothing."""
    done: list[str] = []
    failed: dict[str, KafkaError] = {}
    with connect(access_of(context)) as admin:
        known = [each.node_id for each in describe_nodes(admin).brokers if not each.fenced]
        for node_id in brokers or known:
            if node_id not in known:
                alive = ", ".join(map(str, known))
                raise CommandFailed(f"there is no broker {node_id} that is alive; there is {alive}")
            resource = Resource(ResourceType.BROKER, str(node_id))
            found = admin.describe_configs([resource])[resource]
            problem: KafkaError | None
            if isinstance(found, KafkaError):
                problem = found
            else:
                problem = admin.alter_configs({resource: [_unchanged(found)]})[resource]
            if problem is None:
                done.append(f"broker {node_id}")
            else:
                failed[f"broker {node_id}"] = problem
    report(format_of(context), done, failed, "reloaded")


def _directory(path: Path) -> "AuthorityDirectory":
    from penstock.cli.cert.authority_directory import AuthorityDirectory

    return AuthorityDirectory(path)


def _certificate_rows(path: Path, pem: str) -> Iterator[Row]:
    found = certificates_in(pem)
    if not found:
        raise CommandFailed(f"{path} holds no certificate in PEM")
    for der in found:
        try:
            certificate = parse_certificate(der)
        except DerBroken as problem:
            raise CommandFailed(f"{path}: {problem}") from problem
        end = datetime.fromtimestamp(certificate.not_after_ms / 1000, UTC)
        yield {
            "file": str(path),
            "subject": name_text(certificate.subject),
            "hosts": ", ".join(certificate.hosts),
            "ends": f"{end:%Y-%m-%d}",
            "days": _days_left(certificate.not_after_ms),
            "fingerprint": hashlib.sha256(der).hexdigest(),
        }


def _days_left(not_after_ms: int) -> int:
    return int((not_after_ms - datetime.now(UTC).timestamp() * 1000) // DAY_MS)


def _ends_within(pem: str, days: int) -> bool:
    ends = [parse_certificate(each).not_after_ms for each in certificates_in(pem)]
    return any(_days_left(each) < days for each in ends)


def _unchanged(values: list[ConfigValue]) -> ConfigChange:
    """Return a change that changes nothing: a broker reads its stores again with each."""
    for each in values:
        if each.name == LOCATION and each.source == DYNAMIC:
            return ConfigChange(LOCATION, Operation.SET, each.value)
    return ConfigChange(LOCATION, Operation.DELETE)
