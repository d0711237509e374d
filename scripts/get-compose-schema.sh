#!/bin/sh
# Fetches the JSON schemas of compose files for the tests, once, and prints where the first one is:
#   ASSAY_COMPOSE_SCHEMA=$(sh scripts/get-compose-schema.sh)
# The schema of the Compose Specification (Apache-2.0) as the package check-jsonschema ships it, and
# in the same folder that of docker-compose 1.29 (Apache-2.0), the last one in Python.
HERE=$(dirname "$0")
sh "$HERE/get-package-file.sh" docker-compose==1.29.2 compose/config/compose_spec.json \
    0dc04bd346dcfee1b1419628fff79937bbf076925f298f272a2b490e2b112bac compose-schema >/dev/null
exec sh "$HERE/get-package-file.sh" check-jsonschema==0.39.0 \
    check_jsonschema/builtin_schemas/vendor/compose-spec.json \
    d549057ebc2925f39f62799eab0db7b9e2c18b35b6c00595199116da3ed10e64 compose-schema
