"""Examples that `--help` of each command ends with, by the command's path."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "start": (
        "penstock start --data ./data",
        "penstock start --nodes 3 --data ./three",
        "penstock start --secure --data ./data",
        "penstock start --config server.properties --set num.partitions=3",
        "penstock start --config server.properties --check",
    ),
    "produce": (
        "echo 'hello, world' | penstock produce greetings",
        "penstock produce orders orders.csv --key-separator ,",
        "penstock produce orders orders.jsonl --input json",
    ),
    "consume": (
        "penstock consume orders --count 10 --keys",
        "penstock consume orders payments --follow --from end",
        "penstock consume --pattern 'orders-.*' --filter 'value.customer=ann'",
        "penstock consume orders --template '%p:%o %k %v'",
    ),
    "top": ("penstock top", "penstock top --once --format json"),
    "worker": ("penstock worker shop.billing:app --http 8080",),
    "version": ("penstock version --format json",),
    "topic create": (
        "penstock topic create orders --partitions 3",
        "penstock topic create customers --config cleanup.policy=compact",
    ),
    "topic list": ("penstock topic list", "penstock topic list 'orders-.*'"),
    "topic describe": ("penstock topic describe orders",),
    "topic alter": (
        "penstock topic alter orders --partitions 6",
        "penstock topic alter orders --config retention.ms=86400000",
    ),
    "topic delete": ("penstock topic delete orders", "penstock topic delete a b --if-exists --yes"),
    "topic offsets": (
        "penstock topic offsets orders",
        "penstock topic offsets orders:0 --at @2026-01-31T12:00",
    ),
    "topic delete-records": (
        "penstock topic delete-records orders --before end --dry-run",
        "penstock topic delete-records orders:0,1 --before 1000",
    ),
    "group list": ("penstock group list", "penstock group list --state Stable"),
    "group describe": (
        "penstock group describe billing",
        "penstock group describe billing --members",
    ),
    "group reset": (
        "penstock group reset billing --topic orders --to-earliest",
        "penstock group reset billing --all-topics --to-datetime 2026-01-31T12:00 --execute",
    ),
    "group delete": ("penstock group delete billing --dry-run", "penstock group delete billing"),
    "group delete-offsets": ("penstock group delete-offsets billing --topic orders",),
    "user add": (
        "penstock user add billing --generate --files ./clients",
        "head -1 password.txt | penstock user add billing",
    ),
    "user list": ("penstock user list",),
    "user password": ("penstock user password billing",),
    "user remove": ("penstock user remove billing",),
    "acl allow": (
        "penstock acl allow billing --consume orders --group billing",
        "penstock acl allow shop --produce shop- --prefix --dry-run",
        "penstock acl allow ops --operation describe --cluster",
    ),
    "acl deny": ("penstock acl deny billing --operation read --topic salaries",),
    "acl list": ("penstock acl list billing", "penstock acl list --topic orders"),
    "acl remove": (
        "penstock acl remove billing --consume orders --group billing",
        "penstock acl remove billing --all --yes",
    ),
    "acl explain": ("penstock acl explain billing write topic orders --from 10.0.0.7",),
    "config describe": (
        "penstock config describe --topic orders",
        "penstock config describe log.retention.ms --broker 1",
    ),
    "config set": (
        "penstock config set retention.ms=86400000 --topic orders",
        "penstock config set log.cleaner.threads=2 --all-brokers",
    ),
    "config unset": ("penstock config unset retention.ms --topic orders",),
    "config explain": ("penstock config explain log.retention.ms cleanup.policy",),
    "cluster describe": ("penstock cluster describe",),
    "cluster health": ("penstock cluster health", "penstock cluster health --format json"),
    "cluster features": ("penstock cluster features",),
    "cluster elect-leaders": (
        "penstock cluster elect-leaders",
        "penstock cluster elect-leaders --topic orders:0",
    ),
    "cert node": ("penstock cert node kafka-2 --host kafka-2.example.org --host 10.0.0.2",),
    "cert client": ("penstock cert client billing",),
    "cert show": ("penstock cert show", "penstock cert show server.pem"),
    "cert renew": ("penstock cert renew --days 60", "penstock cert renew --authority"),
    "cert reload": ("penstock cert reload", "penstock cert reload 2"),
    "broker list": ("penstock broker list", "penstock broker list --fenced"),
    "broker describe": ("penstock broker describe 1",),
    "broker apis": ("penstock broker apis", "penstock broker apis 1 --format json"),
    "broker unregister": ("penstock broker unregister 3",),
    "quorum describe": ("penstock quorum describe",),
    "quota list": ("penstock quota list",),
    "quota set": (
        "penstock quota set producer_byte_rate=10000000 --user billing",
        "penstock quota set request_percentage=20 consumer_byte_rate=5e6 --every-client",
    ),
    "quota remove": ("penstock quota remove producer_byte_rate --user billing",),
    "txn list": (
        "penstock txn list",
        "penstock txn list --state Ongoing --longer-than 10m",
    ),
    "txn describe": ("penstock txn describe shop-1",),
    "txn find-hanging": (
        "penstock txn find-hanging --topic orders",
        "penstock txn find-hanging --broker 1 --max-timeout 1h",
    ),
    "txn abort": (
        "penstock txn abort shop-1",
        "penstock txn abort --topic orders --partition 0 --start-offset 1234",
    ),
    "txn recover": ("penstock txn recover", "penstock txn recover orders-sink --execute"),
    "log dirs": ("penstock log dirs", "penstock log dirs --topic orders --replicas"),
    "log move": ("penstock log move orders:0,1 --to /disk2",),
    "log status": (
        "penstock log status --watch",
        "penstock log status --address 127.0.0.1:9404 --format json",
    ),
    "log dump": ("penstock log dump data/orders-0", "penstock log dump data/orders-0 --records"),
    "dlq list": ("penstock dlq list",),
    "dlq show": ("penstock dlq show orders --group billing",),
    "dlq replay": ("penstock dlq replay orders --group billing --all --dry-run",),
    "dlq purge": ("penstock dlq purge orders --group billing --replayed",),
    "profile list": ("penstock profile list",),
    "profile show": ("penstock profile show staging",),
    "profile set": (
        "penstock profile set staging --bootstrap staging.example.com:9092",
        "penstock profile set staging security.protocol=SSL namespace=team-a.",
    ),
    "profile use": ("penstock profile use staging", "penstock profile use --none"),
    "profile remove": ("penstock profile remove staging",),
    "spark warmup": ("penstock spark warmup",),
    "streams run": ("penstock streams run shop.totals:topology --once",),
    "streams describe": ("penstock streams describe shop.totals:topology",),
    "streams list": ("penstock streams list",),
    "streams reset": ("penstock streams reset shop.totals:topology",),
    "debug bundle": (
        "penstock debug bundle",
        "penstock debug bundle problem.tar.gz --log node.log --log worker.log",
    ),
}

# Of `penstock` itself, and of each noun: its usual first commands.
NOUN_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "acl": ("penstock acl allow billing --consume orders --group billing",),
    "": (
        "penstock start --data ./data",
        "penstock topic create greetings --partitions 3",
        "echo 'hello, world' | penstock produce greetings",
        "penstock consume greetings",
    ),
    "topic": (
        "penstock topic create orders --partitions 3",
        "penstock topic describe orders",
    ),
    "group": (
        "penstock group describe billing",
        "penstock group reset billing --topic orders --to-earliest",
    ),
    "config": (
        "penstock config set retention.ms=86400000 --topic orders",
        "penstock config explain retention.ms",
    ),
    "cluster": ("penstock cluster describe", "penstock cluster health"),
    "broker": ("penstock broker list",),
    "cert": ("penstock cert node kafka-1 --host kafka-1.example.org", "penstock cert show"),
    "quorum": ("penstock quorum describe",),
    "quota": ("penstock quota set producer_byte_rate=10000000 --user billing",),
    "user": ("penstock user add billing --generate", "penstock user remove billing"),
    "txn": ("penstock txn list --state Ongoing --longer-than 10m",),
    "log": ("penstock log dirs --topic orders", "penstock log dump data/orders-0 --records"),
    "dlq": (
        "penstock dlq show orders --group billing",
        "penstock dlq replay orders --group billing --all --dry-run",
    ),
    "profile": (
        "penstock profile set staging --bootstrap staging.example.com:9092",
        "penstock profile use staging",
    ),
    "spark": ("penstock spark warmup",),
    "streams": ("penstock streams run shop.totals:topology --once",),
    "debug": ("penstock debug bundle",),
}


def add_examples(app: "typer.Typer", path: str = "") -> None:
    """Add the examples to the end of the help of each command and noun."""
    if not path:
        app.info.epilog = f"{_paragraph(NOUN_EXAMPLES[''])}\n\n{app.info.epilog}"
    for command in app.registered_commands:
        assert command.callback is not None, "a command has a function"
        name = command.name or command.callback.__name__.replace("_", "-")
        shown = EXAMPLES.get(f"{path}{name}", ())
        if shown:
            command.epilog = _paragraph(shown)
    for group in app.registered_groups:
        assert group.typer_instance is not None, "a group has commands"
        group.epilog = _paragraph(NOUN_EXAMPLES[f"{path}{group.name}"])
        add_examples(group.typer_instance, f"{path}{group.name} ")


def _paragraph(examples: Sequence[str]) -> str:
    # Click does not wrap a paragraph that begins with a backspace.
    return "\b\nExamples:\n" + "\n".join(f"  {each}" for each in examples)
