"""The optional part `penstock[spark]`: a clear error if its packages are missing."""

import importlib

INSTALL = "pip install 'penstock[spark]'"
PACKAGES = ("pyspark", "pyarrow")


class SparkMissing(ModuleNotFoundError):
    """A package that Spark jobs need is not installed; the text gives the command to install it."""


def require_spark(entry: str) -> None:
    """Raise SparkMissing unless the packages of `entry` can be imported."""
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as missing:
            raise SparkMissing(
                f"{entry} needs {missing.name}, which is not installed: {INSTALL}",
                name=missing.name,
            ) from None
