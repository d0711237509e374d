#!/bin/sh
# Makes $VENV and installs Assay with its development tools.
set -eu

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
export PYTHON

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Assay needs Python 3.11 or newer, but '$PYTHON' is $("$PYTHON" --version 2>&1)." >&2
    echo "Name another interpreter:  make PYTHON=python3.12 $(basename "${MAKECMDGOALS:-setup}")" >&2
    exit 2
fi

echo "setting up $VENV (once, about a minute)" >&2
sh scripts/install.sh "$VENV" --require-hashes --requirement locks/dev.lock
# What the lock does not have yet (a test says so) comes unlocked, rather than not at all. The model is
# a package of this repository: by its folder, since a lock could only name it from an index.
sh scripts/install.sh "$VENV" --no-build-isolation --editable ".[all]" --group dev \
    ./packages/agent-assay-minilm
