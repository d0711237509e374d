#!/bin/sh
# Makes .venv-a2a03, an environment of its own with the A2A library that agents in the field still
# use. The tests against it run where ASSAY_A2A03_PYTHON names its interpreter:
#
#     scripts/make-a2a03-venv.sh
#     ASSAY_A2A03_PYTHON=$PWD/.venv-a2a03/bin/python make test
set -eu

PYTHON=${PYTHON:-python3}
VENV=${1:-.venv-a2a03}
WANTED='a2a-sdk[http-server]==0.3.26'

has_it() {
    "$VENV/bin/python" -c 'import sys, importlib.metadata as m, uvicorn
sys.exit(m.version("a2a-sdk") != "0.3.26")' >/dev/null 2>&1
}

if has_it; then
    exit 0
fi
sh "$(dirname "$0")/install.sh" "$VENV" "$WANTED" uvicorn
