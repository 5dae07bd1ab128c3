"""The table, on the screen and as files."""

import json
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.compare import OURS, THEIRS, Plan, Result
from bench.row import Suite
from bench.servers import ROOT
from bench.stats import cost_percent, figure

RESULTS = ROOT / "bench" / "results"
HEADINGS = (
    "row",
    "unit",
    "Penstock",
    "Apache Kafka",
    "ratio",
    "target",
    "verdict",
    "CPU s/million",
)


def verdict(result: Result) -> str:
    if result.failures:
        return "failed"
    if result.met is not None:
        return "met" if result.met else "missed"
    return "-" if result.ratio is None else "measured"


def cells(result: Result) -> list[str]:
    """One line of the table, as text."""
    ours, theirs, ratio = result.spread(OURS), result.spread(THEIRS), result.ratio
    cpu = [result.cpu(OURS), result.cpu(THEIRS)]
    shown = " / ".join("-" if part is None else figure(part) for part in cpu)
    title = result.row.title
    if result.row.suite is Suite.DURABILITY and ours and theirs:
        title += f" (costs {cost_percent(theirs.median, ours.median):.1f} %)"
    return [
        title,
        result.row.unit,
        str(ours) if ours else "-",
        str(theirs) if theirs else "-",
        f"{ratio:.2f}" if ratio is not None else "-",
        str(result.row.target) if result.row.target else "-",
        verdict(result),
        shown if any(part is not None for part in cpu) else "-",
    ]


def show(results: list[Result], console: Console) -> None:
    table = Table(title="Penstock beside Apache Kafka: median (lowest-highest)")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    colours = {"met": "green", "missed": "red", "failed": "red"}
    for result in results:
        table.add_row(*cells(result), style=colours.get(verdict(result)))
    console.print(table)
    for result in results:
        for failure in result.failures:
            console.print(f"{result.row.name}: {failure}", style="red", markup=False)


def as_markdown(results: list[Result], facts: dict[str, str], plan: Plan) -> str:
    lines = ["# Penstock beside Apache Kafka", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- rounds: {plan.rounds}, {plan.seconds:g} s per measurement", ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(cells(result)) + " |" for result in results]
    failures = [f"- {r.row.name}: {text}" for r in results for text in r.failures]
    return "\n".join([*lines, "", *failures]).rstrip() + "\n"


def as_json(results: list[Result], facts: dict[str, str], plan: Plan) -> str:
    rows = [
        {
            "row": result.row.name,
            "title": result.row.title,
            "unit": result.row.unit,
            "target": str(result.row.target) if result.row.target else None,
            "ratio": result.ratio,
            "verdict": verdict(result),
            "failures": result.failures,
            "samples": {
                side: [
                    {
                        "value": sample.value,
                        "cpu_s_per_million": sample.cpu_s_per_million,
                        **sample.details,
                    }
                    for sample in samples
                ]
                for side, samples in result.samples.items()
            },
        }
        for result in results
    ]
    head = {"machine": facts, "rounds": plan.rounds, "seconds": plan.seconds, "quick": plan.quick}
    return json.dumps({**head, "rows": rows}, indent=1) + "\n"


def write(results: list[Result], facts: dict[str, str], plan: Plan) -> Path:
    """Both files under bench/results; the path of the readable one."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    stem = f"{day}-{facts['commit']}" + ("-quick" if plan.quick else "")
    earlier = len([*RESULTS.glob(f"{stem}.md"), *RESULTS.glob(f"{stem}-run*.md")])
    if earlier:  # other rows, perhaps
        stem += f"-run{earlier + 1}"
    for ending, text in (
        ("json", as_json(results, facts, plan)),
        ("md", as_markdown(results, facts, plan)),
    ):
        fresh = RESULTS / f"{stem}.{ending}.tmp"
        fresh.write_text(text)
        fresh.rename(RESULTS / f"{stem}.{ending}")
    return RESULTS / f"{stem}.md"
