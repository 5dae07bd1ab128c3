"""`penstock version`"""

import platform

import typer

from penstock import __version__
from penstock.cli.output import Format, FormatOption, format_of, print_json


def version(context: typer.Context, form: FormatOption = None) -> None:
    """Print the versions of Penstock and of what it stands on."""
    import confluent_kafka

    versions = {
        "penstock": __version__,
        "python": platform.python_version(),
        "librdkafka": str(confluent_kafka.libversion()[0]),
    }
    if format_of(context, form) is Format.JSON:
        print_json({**versions})
        return
    for name, number in versions.items():
        print(f"{name} {number}")
