#!/bin/sh
# Puts the JavaScript A2A library into a folder of its own. The tests against it run where
# ASSAY_A2A_JS names that folder:
#
#     scripts/get-a2a-js.sh
#     ASSAY_A2A_JS=$PWD/.a2a-js make test
set -eu

FOLDER=${1:-.a2a-js}
WANTED='@a2a-js/sdk@1.3.0'

if [ -f "$FOLDER/node_modules/@a2a-js/sdk/package.json" ]; then
    exit 0
fi
mkdir -p "$FOLDER"
npm install --silent --no-fund --no-audit --prefix "$FOLDER" "$WANTED" >&2
