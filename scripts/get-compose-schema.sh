#!/bin/sh
# Fetches the JSON schema of compose files for the tests, once, and prints where it is:
#   ASSAY_COMPOSE_SCHEMA=$(sh scripts/get-compose-schema.sh)
# The schema of the Compose Specification (Apache-2.0) as the package check-jsonschema ships it, of
# which no code is run, so none of its dependencies is wanted.
set -eu

PACKAGE=check-jsonschema==0.39.0
SHA256=d549057ebc2925f39f62799eab0db7b9e2c18b35b6c00595199116da3ed10e64
PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/compose-schema
SCHEMA=$FOLDER/check_jsonschema/builtin_schemas/vendor/compose-spec.json

right() { echo "$SHA256  $SCHEMA" | sha256sum --check --status 2>/dev/null; }

if ! right; then
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --no-deps --target "$FOLDER" --python "$PYTHON" "$PACKAGE" >&2
    else
        "$PYTHON" -m pip install --quiet --no-deps --upgrade --target "$FOLDER" "$PACKAGE" >&2
    fi
    right || {
        echo "$SCHEMA is not the file that was expected; remove $FOLDER and try again" >&2
        exit 1
    }
fi
echo "$SCHEMA"
