"""The optional part `penstock[spark]`: what its packages need, told to a reader who lacks it."""

import importlib

INSTALL = "pip install 'penstock[spark]'"
PACKAGES = ("pyspark", "pyarrow")


class SparkMissing(ModuleNotFoundError):
    """A package that Spark jobs need is not installed; the text says how to install it."""


def require_spark(entry: str) -> None:
    """Raise SparkMissing unless what `entry` is about can be imported."""
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as missing:
            raise SparkMissing(
                f"{entry} needs {missing.name}, which is not installed: {INSTALL}",
                name=missing.name,
            ) from None
