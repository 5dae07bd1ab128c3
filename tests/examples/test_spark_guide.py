"""docs/guides/spark.md names every option there is, and none that there is not."""

import re
from pathlib import Path

import pytest

from penstock.spark.options import client_keys, sink, source

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "spark.md").read_text()
CODE = re.compile(r"`([^`\n]+)`")


def section(title: str) -> str:
    return GUIDE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def first_column(text: str) -> set[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in CODE.findall(cell)}


def test_every_option_of_the_source_is_in_its_table_and_no_other() -> None:
    assert first_column(section("Reading")) == {*source.NAMES, "kafka.group.id"}


def test_every_option_of_the_sink_is_in_its_tables_and_no_other() -> None:
    columns = {"value", "key", "partition", "headers", "topic"}
    # Checkpoints are Spark's own option; headers are written where there is a column.
    known = {*sink.NAMES, *columns} - {"checkpointLocation", "includeHeaders"}
    assert first_column(section("Writing")) == known


@pytest.mark.parametrize(
    "keys",
    [
        client_keys.READER,
        client_keys.WRITER,
        client_keys.WITHOUT_EFFECT,
        tuple(client_keys.REFUSED),
    ],
    ids=["reader", "writer", "without effect", "refused"],
)
def test_every_client_key_is_named(keys: tuple[str, ...]) -> None:
    named = section("Client keys")
    levels = {f"compression.{each}.level" for each in ("gzip", "lz4", "zstd")}
    assert "`compression.{gzip,lz4,zstd}.level`" in named
    assert [key for key in keys if f"`{key}`" not in named and key not in levels] == []


def test_every_link_inside_the_guide_leads_somewhere() -> None:
    titles = re.findall(r"^#+ (.*)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in titles}
    links = re.findall(r"\]\(#([^)]+)\)", GUIDE)
    pipelines = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
    links += re.findall(r"guides/spark\.md#([^)]+)\)", pipelines)
    assert [each for each in links if each not in anchors] == []
