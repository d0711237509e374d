#!/bin/sh
# Makes $VENV and installs Assay with its development tools: with uv where it is installed, else with pip.
set -eu

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Assay needs Python 3.11 or newer, but '$PYTHON' is $("$PYTHON" --version 2>&1)." >&2
    echo "Name another interpreter:  make PYTHON=python3.12 $(basename "${MAKECMDGOALS:-setup}")" >&2
    exit 2
fi

echo "setting up $VENV (once, about a minute)" >&2
if command -v uv >/dev/null 2>&1; then
    [ -x "$VENV/bin/python" ] || uv venv --quiet --python "$PYTHON" "$VENV"
    uv pip install --quiet --python "$VENV/bin/python" --require-hashes --requirement requirements-dev.lock
    # What the lock does not have yet (a test says so) comes unlocked, rather than not at all.
    uv pip install --quiet --python "$VENV/bin/python" --no-build-isolation --editable ".[all]" --group dev
else
    [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
    # --group needs pip 25.1; the pip that comes with Python 3.11 is older.
    "$VENV/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
    "$VENV/bin/python" -m pip install --quiet --require-hashes --requirement requirements-dev.lock
    "$VENV/bin/python" -m pip install --quiet --no-build-isolation --editable ".[all]" --group dev
fi
# Not the tests of libraries, nor Ray, which is large and which few need.
"$VENV/bin/python" -m compileall -q -j 0 -x '/(tests?|ray|pip|debugpy)/' "$VENV/lib" >/dev/null 2>&1 || true
