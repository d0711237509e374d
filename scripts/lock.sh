#!/bin/sh
# Writes locks/image.lock and locks/ray.lock (what the images install) and locks/dev.lock
# (what CI installs): every package with its version and hashes, for all platforms and Python versions;
# locks/uv.lock is the installer.
# The model, a package of this repository, is in none of them: it is installed from its folder.
# Run it after changing the dependencies in pyproject.toml. LOCK_FLAGS="--upgrade" takes newer versions.
set -eu

UV=$(sh scripts/get-uv.sh)

compile() {
    output=$1
    shift
    # shellcheck disable=SC2086
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate --no-emit-package agent-assay-minilm ${LOCK_FLAGS:-} "$@" --output-file "$output"
}

# All extras but torch, which has its own environment: PyTorch's build depends on the GPU of the
# machine and takes gigabytes.
extras=$(python3 -c 'import tomllib
names = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*(f"--extra={name}" for name in names if name != "torch"))')
# shellcheck disable=SC2086
compile locks/dev.lock pyproject.toml $extras --group dev --group build
# The same versions: what is tested is what is installed.
grep -v '^    --hash' locks/dev.lock | sed 's/ \\$//' > locks/dev.versions
trap 'rm -f locks/dev.versions' EXIT
compile locks/image.lock pyproject.toml --extra all --group build --constraint locks/dev.versions
# For the image of a Ray node, on top of the former.
compile locks/ray.lock pyproject.toml --extra all --extra ray --group build \
    --constraint locks/dev.versions
echo 'uv>=0.13,<0.14' | compile locks/uv.lock -
