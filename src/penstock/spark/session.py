"""`session()`: a Spark session that knows `format("penstock")`.

The module is callable, so that both `from penstock.spark import session` and
`import penstock.spark.session` work.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.datasource import PenstockSource
from penstock.spark.environment import cores_here
from penstock.spark.hang_up import take_updates_quietly
from penstock.spark.java import find_java
from penstock.spark.progress import commit_progress

LOCAL = "local[*]"
LOGGING = Path(__file__).with_name("log4j2.properties")
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class WrongPython(RuntimeError):
    """Spark's workers run another Python than this one."""


def session(
    app: str = "penstock",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    environment: str | None = None,
) -> SparkSession:
    """Start or find the session of this process.

    `master` is any Spark master (this machine by default). On another machine the workers need this
    package: installed there beforehand, or sent along as `environment`, an archive of conda-pack or
    venv-pack. `conf` has Spark's own settings, which override ours.
    """
    chosen = master or os.environ.get("PENSTOCK_SPARK_MASTER") or LOCAL
    _set_environment(chosen, environment)
    builder = SparkSession.builder.appName(app).master(chosen)
    for name, value in {**_defaults(chosen, environment), **(conf or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    if not chosen.startswith("local"):
        _check_python(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session that was made elsewhere."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PenstockSource)
    if commit_progress(spark):
        take_updates_quietly(spark.sparkContext._accumulatorServer)


def _set_environment(master: str, environment: str | None) -> None:
    """Set the environment before Java starts."""
    if "SPARK_REMOTE" not in os.environ:
        os.environ["JAVA_HOME"] = str(find_java().home)
    if master.startswith("local"):
        # Workers and driver are the same interpreter, whichever `python3` is first on PATH.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif environment is not None:
        os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"


def _defaults(master: str, environment: str | None) -> dict[str, str]:
    settings = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(_cores(master)),
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
        }
    if environment is not None:
        settings["spark.archives"] = f"{Path(environment)}#environment"
    return settings


def _cores(master: str) -> int:
    """Return the cores of `local`, `local[4]`, `local[*]`."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    if inside.isdecimal():
        return int(inside)
    return cores_here() if inside == "*" else 1


def _check_python(spark: SparkSession) -> None:
    """Raise WrongPython if the workers run another minor version, which cannot load pickled
    code."""
    here = sys.version_info[:2]
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.version_info[:2]).first()
    if found != here:
        raise WrongPython(
            f"the workers run Python {found[0]}.{found[1]} and this is {here[0]}.{here[1]}: "
            "install the same minor version there, or send environment=..."
        )


class CallableModule(ModuleType):
    """A module that stands for its function."""

    def __call__(self, *arguments: Any, **named: Any) -> SparkSession:
        return session(*arguments, **named)


sys.modules[__name__].__class__ = CallableModule
