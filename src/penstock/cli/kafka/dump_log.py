"""kafka-dump-log: prints segments, indexes and snapshots of a data directory, without a server."""

import sys
from pathlib import Path

from penstock.cli.kafka.dump.batches import Printing, Shown, dump_batches, shown_by
from penstock.cli.kafka.dump.indexes import dump_index, dump_time_index
from penstock.cli.kafka.framework.options import INT_LAST, GivenOptions, Option
from penstock.cli.kafka.framework.runner import (
    CommandRejected,
    command,
    require,
    say,
    say_no_effect,
)
from penstock.cli.log.stored_files import read_producers
from penstock.log.producers import CorruptSnapshot
from penstock.log.transactions import aborted_entries

ABORTED_VERSION = 0
DECODERS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "share-group-state-decoder",
)
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"

OPTIONS = (
    Option("print-data-log", "Print keys and values too."),
    Option("verify-index-only", "Print nothing of indexes but what is wrong with them."),
    Option("index-sanity-check", "Only say whether a start would keep an index."),
    Option("files", "REQUIRED: files, with commas between.", "String: file1, file2, ..."),
    Option("max-message-size", "Has no effect.", "Integer: size", "5242880"),
    Option("max-bytes", "Read so much of each segment.", "Integer: size", str(INT_LAST)),
    Option("deep-iteration", "Print records too."),
    Option("value-decoder-class", "How values are read.", "String", STRING_DECODER, optional=True),
    Option("key-decoder-class", "How keys are read.", "String", STRING_DECODER, optional=True),
    Option("offsets-decoder", "It is a log of __consumer_offsets."),
    Option("transaction-log-decoder", "It is a log of __transaction_state."),
    Option("cluster-metadata-decoder", "It is a log of the cluster's metadata."),
    Option("remote-log-metadata-decoder", "Refused: there are no remote segments here."),
    Option("share-group-state-decoder", "It is a log of __share_group_state."),
    Option("skip-record-metadata", "Print keys and values only."),
)


@command(
    "kafka-dump-log", "What is inside segments, indexes and snapshots of a data directory.", OPTIONS
)
def main(given: GivenOptions) -> None:
    require(given, "files")
    say_no_effect(given, max_message_size="batches are looked at one by one")
    printing = Printing(
        records=given.any_of("deep-iteration", "print-data-log", *DECODERS),
        contents=given.any_of("print-data-log", *DECODERS),
        record_metadata=not given.has("skip-record-metadata"),
        bytes_max=given.number("max-bytes") or INT_LAST,
        shown=_shown(given),
    )
    for name in given.required("files").split(","):
        path = Path(name.strip())
        print(f"Dumping {path}")
        try:
            _dump(path, given, printing)
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise CommandRejected(f"{path}: {reason}") from None


def _shown(given: GivenOptions) -> Shown:
    if given.has("remote-log-metadata-decoder"):
        raise CommandRejected("--remote-log-metadata-decoder: there are no remote segments here")
    for option in ("key-decoder-class", "value-decoder-class"):
        said = given.text(option)
        if said not in (None, STRING_DECODER, "kafka.serializer.StringDecoder"):
            raise CommandRejected(f"--{option} {said}: there is {STRING_DECODER} only")
    return shown_by(next((each for each in DECODERS if given.has(each)), None))


def _dump(path: Path, given: GivenOptions, printing: Printing) -> None:
    match path.suffix:
        case ".log" | ".checkpoint":
            for first, second in dump_batches(path, printing):
                say(f"Non-consecutive offsets in {path}\n  {first} is followed by {second}")
        case ".index" | ".timeindex":
            dump = dump_index if path.suffix == ".index" else dump_time_index
            silent = given.has("verify-index-only")
            dump(path, sane_only=given.has("index-sanity-check"), silent=silent)
        case ".snapshot":
            _dump_producers(path)
        case ".txnindex":
            for each in aborted_entries(path.read_bytes()):
                print(
                    f"version: {ABORTED_VERSION} producerId: {each.producer_id} firstOffset: "
                    f"{each.first_offset} lastOffset: {each.last_offset} lastStableOffset: "
                    f"{each.last_stable_offset}"
                )
        case _:
            say(f"Ignoring unknown file {path}")
    sys.stdout.flush()


def _dump_producers(path: Path) -> None:
    try:
        producers = read_producers(path)
    except CorruptSnapshot as problem:
        say(str(problem))
        return
    for producer_id, state in producers.items():
        epoch, last_sequence, last_timestamp, coordinator_epoch, first_offset, batches = state
        open_at = f"OptionalLong[{first_offset}]" if first_offset >= 0 else "OptionalLong.empty"
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: "
            f"{coordinator_epoch} currentTxnFirstOffset: {open_at} lastTimestamp: "
            f"{last_timestamp} "
        )
        if batches:
            _, last_offset, delta, timestamp = batches[0]
            line += (
                f"firstSequence: {last_sequence - delta} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        print(line)
