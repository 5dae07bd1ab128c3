"""`python -m penstock` is the `penstock` command."""

import sys

from penstock.cli.main import main

sys.exit(main())
