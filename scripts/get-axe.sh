#!/bin/sh
# Installs axe-core for the browser tests, once, and prints where it is:
#   ASSAY_AXE=$(sh scripts/get-axe.sh)
set -eu

PACKAGE=axe-core@4.14.0
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools
FILE=$FOLDER/node_modules/axe-core/axe.min.js

if [ ! -f "$FILE" ]; then
    command -v npm >/dev/null 2>&1 || {
        echo "npm is not installed; set ASSAY_AXE to an axe.min.js of your own" >&2
        exit 1
    }
    mkdir -p "$FOLDER"
    npm install --prefix "$FOLDER" --no-audit --no-fund --ignore-scripts --loglevel=error "$PACKAGE" >&2
fi
echo "$FILE"
