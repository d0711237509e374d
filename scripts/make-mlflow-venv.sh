#!/bin/sh
# Makes .venv-mlflow, an environment of its own with MLflow. The tests of --listener mlflow run where
# ASSAY_MLFLOW_PYTHON names its interpreter:
#
#     scripts/make-mlflow-venv.sh
#     ASSAY_MLFLOW_PYTHON=$PWD/.venv-mlflow/bin/python make test
set -eu

PYTHON=${PYTHON:-python3}
VENV=${1:-.venv-mlflow}

if "$VENV/bin/python" -c 'import mlflow, assay' >/dev/null 2>&1; then
    exit 0
fi
sh "$(dirname "$0")/install.sh" "$VENV" ".[mlflow]"
