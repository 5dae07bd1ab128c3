"""One of several nodes: `penstock` in a process that ends with the command that started it.

`python -m penstock.cli.start_nodes.child PARENT start ...`
"""

import sys

from penstock.parent_process import end_with_parent

if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    from penstock.cli.main import main

    sys.exit(main(sys.argv[2:]))
