"""`python -m compat [CHECK...]`: Penstock against Apache Kafka's own code; needs Java and Maven."""

import argparse
import signal
import sys
from functools import partial
from types import FrameType

from bench.servers import CACHE
from compat.access import check_access
from compat.cluster import check_cluster
from compat.commands import check_commands
from compat.compaction import check_compaction
from compat.delivery import check_delivery
from compat.directories import check_directories
from compat.dump import check_dump
from compat.encryption import check_encryption
from compat.history import check_history
from compat.logins import check_logins
from compat.mixed import check_mixed
from compat.pipelines import check_pipelines
from compat.principals import check_principals
from compat.raw_client import check_raw_client
from compat.records import check_records
from compat.report import Report
from compat.sample import check_sample
from compat.security import check_security
from compat.suite import check_suite
from compat.tools import check_tools

CHECKS = {
    "records": check_records,
    "dump": check_dump,
    "directories": check_directories,
    "compaction": check_compaction,
    "tools": check_tools,
    "commands": check_commands,
    "delivery": check_delivery,
    "history": check_history,
    "cluster": check_cluster,
    "sample": check_sample,
    "mixed": check_mixed,
    "security": check_security,
    "logins": check_logins,
    "access": check_access,
    "encryption": check_encryption,
    "principals": check_principals,
    "client": check_raw_client,
    "suite": check_suite,
    "pipelines": check_pipelines,
}
ANYWHERE = {"tools": check_tools, "delivery": check_delivery}
SUMMARY = CACHE / "compat.json"


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that SIGTERM cleans up as Ctrl-C does


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat", description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="tools, delivery: against this")
    given = parser.parse_args()
    unknown = [name for name in given.checks if name not in CHECKS]
    if unknown:
        parser.error(f"no such check: {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    wanted = given.checks or (list(ANYWHERE) if given.bootstrap else list(CHECKS))
    if given.bootstrap and not set(wanted) <= set(ANYWHERE):
        parser.error(
            f"--bootstrap goes with {' and '.join(ANYWHERE)} only: the others need their"
            " own directories"
        )
    signal.signal(signal.SIGTERM, _end)
    report = Report()
    try:
        for name in wanted:
            check = CHECKS[name]
            if given.bootstrap:
                check = partial(ANYWHERE[name], bootstrap=given.bootstrap)
            report.run(name, check)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    report.write(SUMMARY)
    passed = len(report.lines) - len(report.failed)
    print(f"{passed} passed, {len(report.failed)} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
