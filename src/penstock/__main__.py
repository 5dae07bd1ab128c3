"""`python -m penstock` is the `penstock` command."""

import signal
import sys


def main() -> int:
    """Run the command of the arguments; return its exit code."""
    # Ctrl-C during the imports ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from penstock.cli.main import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
