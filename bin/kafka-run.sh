#!/bin/sh
# Runs a command by its name with the Python that has Penstock: .venv beside bin/ (make install
# makes it), or the one on the PATH. Every other script in here calls this one. -P: what lies in
# the current directory is not Python's to import.
root=$(cd "$(dirname "$0")/.." && pwd)
for python in "$root/.venv/bin/python" python3; do
    if command -v "$python" >/dev/null 2>&1 && "$python" -P -c "import penstock" 2>/dev/null; then
        exec "$python" -P -m penstock.cli.kafka "$@"
    fi
done
echo "Penstock is not installed: run \`make install\` in $root first." >&2
exit 1
