"""`penstock version`"""

import platform

import typer

from penstock.cli.arguments.shared_options import with_format
from penstock.cli.terminal.output import Format, format_of, print_value
from penstock.release import VERSION


@with_format
def version(context: typer.Context) -> None:
    """Print the versions of Penstock and of what it stands on."""
    import confluent_kafka

    versions = {
        "penstock": VERSION,
        "python": platform.python_version(),
        "librdkafka": str(confluent_kafka.libversion()[0]),
    }
    if format_of(context) is not Format.TABLE:
        print_value(format_of(context), {**versions})
        return
    for name, number in versions.items():
        print(f"{name} {number}")
