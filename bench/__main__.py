"""`python -m bench [ROW...]`: measures rows against Penstock and Apache Kafka by turns."""

import argparse
import os
import signal
import sys
from types import FrameType

from rich.console import Console

from bench import report
from bench.compare import SELF_VARIABLE, Plan, compare
from bench.row import Row
from bench.rows import ROWS
from bench.servers import ROOT, ServerFailed
from bench.usage import machine_facts

SECONDS = 8.0
SECONDS_QUICK = 2.0
ROUNDS = 3
WIDTH_IN_A_FILE = 170


def choose(wanted: list[str]) -> list[Row]:
    """Rows by name, or by the beginning of a name that is none itself; all without any."""
    names = [row.name for row in ROWS]
    chosen = set() if wanted else set(names)
    for word in wanted:
        found = [word] if word in names else [name for name in names if name.startswith(word)]
        if not found:
            raise SystemExit(f"no such row: {word}; there are {', '.join(names)}")
        chosen.update(found)
    return [row for row in ROWS if row.name in chosen]


def parse(arguments: list[str]) -> tuple[Plan, bool]:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names, or how they begin")
    parser.add_argument("--only", action="append", default=[], metavar="ROW")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="per measurement")
    parser.add_argument("--quick", action="store_true", help="one short round: a trial, no result")
    parser.add_argument("--strict", action="store_true", help="a missed target is a failure too")
    given = parser.parse_args(arguments)
    rounds = given.rounds or (1 if given.quick else ROUNDS)
    seconds = given.seconds or (SECONDS_QUICK if given.quick else SECONDS)
    if rounds < 1 or seconds <= 0:
        parser.error("at least one round, and some time")
    return Plan(choose([*given.rows, *given.only]), rounds, seconds, given.quick), given.strict


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that SIGTERM cleans up as Ctrl-C does


def main() -> int:
    plan, strict = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, _end)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH_IN_A_FILE)
    try:
        results = compare(plan)
    except KeyboardInterrupt:
        console.print("stopped; nothing written", style="yellow")
        return 130
    except ServerFailed as failure:
        console.print(str(failure), style="red", markup=False)
        return 1
    facts = machine_facts()
    if SELF_VARIABLE in os.environ:
        facts["penstock_is"] = os.environ[SELF_VARIABLE]
    report.show(results, console)
    console.print(f"written to {report.write(results, facts, plan).relative_to(ROOT)}")
    failed = any(result.failures for result in results)
    missed = strict and any(result.met is False for result in results)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
