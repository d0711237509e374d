#!/bin/sh
# Makes .venv-nextcloud-mcp, an environment of its own (700 MB) with the Nextcloud MCP server, which
# is AGPL and no dependency of Assay. The tests against it run where ASSAY_NEXTCLOUD_MCP names it:
#
#     scripts/make-nextcloud-mcp-venv.sh
#     ASSAY_NEXTCLOUD_MCP=$PWD/.venv-nextcloud-mcp/bin/nextcloud-mcp-server make test
set -eu

PYTHON=${PYTHON:-python3}
VENV=${1:-.venv-nextcloud-mcp}
VERSION=0.202.1
WANTED="nextcloud-mcp-server[semantic]==$VERSION"

has_it() {
    "$VENV/bin/python" -c "import sys, importlib.metadata as m, fastembed, mistralai
sys.exit(m.version('nextcloud-mcp-server') != '$VERSION')" >/dev/null 2>&1
}

if has_it; then
    exit 0
fi
sh "$(dirname "$0")/install.sh" "$VENV" "$WANTED"
echo "*" >"$VENV/.gitignore"
