#!/bin/sh
# Prints where uv is; where it is not installed, puts the version of locks/uv.lock into the cache.
set -eu

if command -v uv; then
    exit 0
fi
PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/uv
if [ ! -x "$FOLDER/bin/uv" ]; then
    new=$FOLDER.$$
    "$PYTHON" -m pip install --quiet --require-hashes --target "$new" \
        --requirement "$(dirname "$0")/../locks/uv.lock" >&2
    # Another process may have been faster.
    [ -e "$FOLDER" ] || mv "$new" "$FOLDER"
    rm -rf "$new"
fi
echo "$FOLDER/bin/uv"
