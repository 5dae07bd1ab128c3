"""kafka-delete-records: deletes records before an offset per partition, from a JSON file."""

from penstock.cli.kafka.framework.client_options import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.partition_json import listed_twice, read_partitions
from penstock.cli.kafka.framework.runner import CommandRejected, command, require
from penstock.errors import KafkaError
from penstock.model import TopicPartition

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option(
        "offset-json-file",
        'REQUIRED: {"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], '
        '"version": 1}; -1 is the end.',
        "String: Offset json file path",
    ),
    COMMAND_CONFIG,
)


@command(
    "kafka-delete-records", "Drops what comes before an offset.", OPTIONS, usage_on_error=False
)
def main(given: GivenOptions) -> None:
    require(given, "bootstrap-server", "offset-json-file")
    before = _offsets(given.required("offset-json-file"))
    with admin_of(given) as admin:
        print("Executing records delete operation")
        results = admin.delete_records(before)
    print("Records delete operation completed:")
    for partition, result in results.items():
        if isinstance(result, KafkaError):
            print(f"partition: {partition}\terror: {result.message}")
        else:
            print(f"partition: {partition}\tlow_watermark: {result}")


def _offsets(path: str) -> dict[TopicPartition, int]:
    listed = read_partitions(path)
    twice = listed_twice([partition for partition, _ in listed])
    if twice:
        raise CommandRejected(
            "Offset json file contains duplicate topic partitions: " + ",".join(map(str, twice))
        )
    offsets: dict[TopicPartition, int] = {}
    for partition, said in listed:
        offset = said.get("offset")
        if not isinstance(offset, int):
            raise CommandRejected(f"{path}: {partition} has no offset")
        offsets[partition] = offset
    return offsets
