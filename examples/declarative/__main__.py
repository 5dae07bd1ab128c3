"""`python -m examples.declarative`: runs the pipeline once, over what the topics have."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pyspark

from penstock.spark.java import find_java

HERE = Path(__file__).parent
COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.declarative", description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--storage", type=Path, default=Path("pipeline-storage"), metavar="DIR")
    given = parser.parse_args()
    return run(given.bootstrap, given.storage.resolve())


def run(bootstrap: str, storage: Path, log: IO[bytes] | None = None) -> int:
    """The exit code of spark-pipelines. Checkpoints are kept in `storage`: the next run goes on."""
    storage.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(COMMAND), "run", "--spec", str(_spec(storage))],
        env=_environment(bootstrap),
        cwd=storage,  # where Spark puts what it finds no better place for
        stdout=log,
        stderr=log,
        check=False,
    )
    return done.returncode


def _spec(storage: Path) -> Path:
    """The example's, with a place of our own: a spec takes absolute addresses only."""
    text = (HERE / "spark-pipeline.yml").read_text()
    place = (storage / "state").as_uri()
    spec = re.sub(r"^storage:.*$", f"storage: {place}", text, flags=re.MULTILINE)
    (storage / "transformations").unlink(missing_ok=True)
    (storage / "transformations").symlink_to(HERE / "transformations")
    made = storage / "spark-pipeline.yml"
    made.write_text(spec)
    return made


def _environment(bootstrap: str) -> dict[str, str]:
    """spark-pipelines takes `python3` from PATH unless it is told: it must be this Python."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PENSTOCK_BOOTSTRAP": bootstrap,
    }


if __name__ == "__main__":
    raise SystemExit(main())
