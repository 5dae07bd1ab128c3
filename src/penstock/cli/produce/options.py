"""The options of `penstock produce`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments.number_limits import INT32_MAX


class Acks(StrEnum):
    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Input(StrEnum):
    LINES = "lines"
    JSON = "json"
    WHOLE = "whole"


FilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="Default: stdin, as is `-`.")
]
InputOption = Annotated[
    Input,
    typer.Option(
        "--input",
        help="lines: a record each. json: an object in each line, with key, value, headers, "
        "partition, timestamp, as `consume --format json` prints them. whole: each file is one "
        "record.",
    ),
]
KeySeparatorOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Text between key and value; no keys without it."),
]
NullMarkerOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="A key or value of this text is null.")
]
HeadersOption = Annotated[
    list[str],
    typer.Option("--header", metavar="KEY=VALUE", help="For every record; may be repeated."),
]
PartitionOption = Annotated[
    int | None, typer.Option(min=0, max=INT32_MAX, help="Default: by the key, or spread.")
]
AcksOption = Annotated[Acks, typer.Option(help="Whose acknowledgement to wait for.")]
CompressionOption = Annotated[Compression, typer.Option(help="How batches are compressed.")]
IdempotentOption = Annotated[
    bool, typer.Option("--idempotent", help="A retry never stores a record twice; acks=all.")
]
TimeoutOption = Annotated[
    int, typer.Option(min=1, help="How long a record may take, retries included.")
]
