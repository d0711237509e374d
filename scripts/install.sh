#!/bin/sh
# Installs Python packages with uv, in a fifth of pip's time, and with pip where that fails:
#   sh scripts/install.sh VENV ARGUMENT...             makes the environment where it is missing
#   sh scripts/install.sh --target FOLDER ARGUMENT...
# The arguments are those that `uv pip install` and `pip install` share.
set -eu

PYTHON=${PYTHON:-python3}
# Indexes and folders that pip's variables name.
export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-}}"
export UV_INDEX="${UV_INDEX:-${PIP_EXTRA_INDEX_URL:-}}"
export UV_FIND_LINKS="${UV_FIND_LINKS:-$(echo "${PIP_FIND_LINKS:-}" | tr ' ' ',')}"

with_uv() {
    uv=$(sh "$(dirname "$0")/get-uv.sh") || return 1
    if [ -n "$VENV" ]; then
        [ -x "$VENV/bin/python" ] || "$uv" venv --quiet --python "$PYTHON" "$VENV" || return 1
        "$uv" pip install --quiet --python "$VENV/bin/python" "$@"
    else
        "$uv" pip install --quiet --python "$PYTHON" --target "$TARGET" "$@"
    fi
}

with_pip() {
    if [ -n "$VENV" ]; then
        "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv "$VENV"
        # --group needs pip 25.1; the pip that comes with Python 3.11 is older.
        "$VENV/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
        "$VENV/bin/python" -m pip install --quiet "$@"
    else
        "$PYTHON" -m pip install --quiet --upgrade --target "$TARGET" "$@"
    fi
}

VENV='' TARGET=''
if [ "$1" = --target ]; then
    TARGET=$2
    shift 2
else
    VENV=$1
    shift
fi
with_uv "$@" >&2 || {
    echo "uv did not install that; trying pip" >&2
    with_pip "$@" >&2
}
