"""`python -m bench.pipelines [ROW...]`: pipelines on Spark beside the same with nothing behind."""

import argparse
import os
import sys
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from bench.pipelines.jobs import ROWS, Place, Row
from bench.pipelines.null import NullSource
from bench.report import RESULTS
from bench.servers import ROOT, running, scratch
from bench.stats import Spread, ratio_of
from bench.usage import machine_facts
from penstock.spark.session import session

ROUNDS = 5
HEADINGS = ("row", "unit", "Penstock", "beside", "its figure", "ratio", "target", "verdict")
Figures = dict[str, tuple[list[float], list[float]]]


def measure(place: Place, rows: list[Row], rounds: int) -> Figures:
    """By turns; who goes first changes from round to round."""
    figures: Figures = {row.name: ([], []) for row in rows}
    for row in rows:
        row.ours(place)  # caches, Java's compiler, Spark's workers
        row.other(place)
        for number in range(rounds):
            turns = [(0, row.ours), (1, row.other)]
            for side, job in turns if number % 2 == 0 else reversed(turns):
                os.sync()
                figures[row.name][side].append(job(place))
            ours, other = (figures[row.name][side][-1] for side in (0, 1))
            print(f"{row.name} {number + 1}/{rounds}: {ours:,.1f} {other:,.1f} {row.unit}")
            sys.stdout.flush()
    return figures


def cells(row: Row, ours: list[float], other: list[float]) -> list[str]:
    mine, theirs = Spread.of(ours), Spread.of(other)
    ratio = ratio_of(mine, theirs)
    verdict = "measured"
    if row.target is not None and ratio is not None:
        verdict = "met" if row.target.met_by(ratio) else "missed"
    return [
        row.title,
        row.unit,
        str(mine),
        row.other_name,
        str(theirs),
        f"{ratio:.2f}" if ratio is not None else "-",
        str(row.target) if row.target else "-",
        verdict,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipelines", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names, or how they begin")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="one short round: a trial, no result")
    given = parser.parse_args()
    chosen = [row for row in ROWS if not given.rows or row.name.startswith(tuple(given.rows))]
    if not chosen:
        parser.error(f"no such row; there are {', '.join(row.name for row in ROWS)}")
    rounds = 1 if given.quick else given.rounds
    with scratch() as directory, running("penstock", directory / "data", clean=False) as server:
        spark = session("bench", master="local[2]", conf={"spark.driver.memory": "2g"})
        spark.dataSource.register(NullSource)
        try:
            place = Place(spark, server.bootstrap, directory, given.quick)
            figures = measure(place, chosen, rounds)
        finally:
            spark.stop()
    lines = [cells(row, *figures[row.name]) for row in chosen]
    table = Table(title="Pipelines: median (lowest-highest)")
    for heading in HEADINGS:
        table.add_column(heading)
    for line in lines:
        table.add_row(*line)
    Console(width=170).print(table)
    if not given.quick:
        print(f"written to {_write(lines, rounds)}")
    return 0


def _write(lines: list[list[str]], rounds: int) -> str:
    facts = machine_facts()
    text = ["# Pipelines on Spark", ""]
    text += [f"- {name}: {value}" for name, value in facts.items() if name != "kafka"]
    text += [f"- rounds: {rounds}", "", "| " + " | ".join(HEADINGS) + " |"]
    text += ["|" + "---|" * len(HEADINGS), *("| " + " | ".join(line) + " |" for line in lines)]
    date = datetime.now(UTC).date()
    path = RESULTS / f"{date}-{facts['commit']}-pipelines.md"
    path.write_text("\n".join(text) + "\n")
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main())
