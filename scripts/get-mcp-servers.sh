#!/bin/sh
# Puts public MCP servers and old versions of the MCP library into a folder (450 MB) and prints where
# it is. The tests against them run where ASSAY_MCP_SERVERS names that folder:
#   ASSAY_MCP_SERVERS=$(sh scripts/get-mcp-servers.sh)
# Each is installed beside the others, because they need different versions of the same library.
set -eu

PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/mcp-servers
OLD_PYDANTIC='pydantic<2.11' # which the old versions of the library were written for

into() {
    target=$FOLDER/$1
    shift
    sh "$(dirname "$0")/install.sh" --target "$target" "$@"
}

# The folder of an earlier version lacks the clients.
if [ ! -f "$FOLDER/complete" ] || [ ! -d "$FOLDER/langchain" ]; then
    rm -rf "$FOLDER"
    mkdir -p "$FOLDER/npm"
    npm install --prefix "$FOLDER/npm" --no-audit --no-fund --ignore-scripts --loglevel=error \
        @modelcontextprotocol/server-filesystem@2026.8.31 \
        @modelcontextprotocol/server-memory@2026.8.31 >&2 &
    npm=$!
    into mcp-1.2 mcp==1.2.1 "$OLD_PYDANTIC"
    into mcp-1.5 mcp==1.5.0 "$OLD_PYDANTIC"
    into mcp-1.8 mcp==1.8.1 "$OLD_PYDANTIC"
    into fastmcp fastmcp==4.1.2
    into langchain langchain-mcp-adapters==0.3.1 'mcp<2'
    wait "$npm"
    touch "$FOLDER/complete"
fi
echo "$FOLDER"
