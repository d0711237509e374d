#!/bin/sh
# Fetches the JSON schema of compose files for the tests, once, and prints where it is:
#   ASSAY_COMPOSE_SCHEMA=$(sh scripts/get-compose-schema.sh)
# It is that of the Compose Specification (Apache-2.0), as the package check-jsonschema ships it.
exec sh "$(dirname "$0")/get-package-file.sh" check-jsonschema==0.39.0 \
    check_jsonschema/builtin_schemas/vendor/compose-spec.json \
    d549057ebc2925f39f62799eab0db7b9e2c18b35b6c00595199116da3ed10e64 compose-schema
