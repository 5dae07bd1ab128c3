"""The clients' own tests against Apache Kafka: what is promised of them holds there as well.

Each file is a pytest run with an outside cluster (`--penstock-bootstrap`) of its own. Tests that
need the inside of a node skip themselves there.
"""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from bench.servers import ROOT, running, scratch
from compat.report import DETAIL_CHARACTERS_MAX, Report

FOLDERS = ("client_api", "retry", "worker")
SECONDS_MAX = 600


def check_suite(report: Report) -> None:
    for folder in FOLDERS:
        for file in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            with scratch() as place, running("kafka", place / "kafka", clean=False) as server:
                _run(report, file, server.bootstrap, place / "told.xml")


def _run(report: Report, file: Path, bootstrap: str, told: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file),
            "--penstock-bootstrap", bootstrap, "--junitxml", str(told),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip
    if not told.exists():
        report.expect(False, file.name, (ran.stdout + ran.stderr)[-DETAIL_CHARACTERS_MAX:])
        return
    for case in ElementTree.parse(told).iter("testcase"):
        if any(each.tag == "skipped" for each in case):
            continue
        problems = [each for each in case if each.tag in ("failure", "error")]
        why = problems[0].get("message") or "failed" if problems else ""
        report.expect(not problems, f"{file.stem}::{case.get('name')}", why)
