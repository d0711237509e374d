#!/bin/sh
# Makes .venv-mlflow, an environment of its own with MLflow. The tests of --listener mlflow run where
# ASSAY_MLFLOW_PYTHON names its interpreter:
#
#     scripts/make-mlflow-venv.sh
#     ASSAY_MLFLOW_PYTHON=$PWD/.venv-mlflow/bin/python make test
set -eu

PYTHON=${PYTHON:-python3}
VENV=${1:-.venv-mlflow}

if "$VENV/bin/python" -c 'import mlflow, typer' >/dev/null 2>&1; then
    exit 0
fi
if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --python "$PYTHON" "$VENV"
    uv pip install --quiet --python "$VENV/bin/python" ".[mlflow]"
else
    "$PYTHON" -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet ".[mlflow]"
fi
