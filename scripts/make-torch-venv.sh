#!/bin/sh
# Makes .venv-torch, an environment of its own with PyTorch and sentence-transformers. The tests
# against them run where ASSAY_TORCH_PYTHON names its interpreter:
#
#     scripts/make-torch-venv.sh
#     ASSAY_TORCH_PYTHON=$PWD/.venv-torch/bin/python make test
set -eu

PYTHON=${PYTHON:-python3}
VENV=${1:-.venv-torch}

if "$VENV/bin/python" -c 'import sentence_transformers, agent_assay_minilm' >/dev/null 2>&1; then
    exit 0
fi
sh "$(dirname "$0")/install.sh" "$VENV" ".[torch]" torch==2.13.0 ./packages/agent-assay-minilm
