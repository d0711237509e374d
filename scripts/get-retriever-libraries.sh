#!/bin/sh
# Puts langchain-core and llama-index-core into a folder of their own (300 MB) and prints where it is.
# The test that evaluates their real retrievers runs where ASSAY_LANGCHAIN names that folder:
#   ASSAY_LANGCHAIN=$(sh scripts/get-retriever-libraries.sh)
set -eu

PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/retrievers
WANTED='langchain-core==1.7.2 llama-index-core==0.14.25'

if [ ! -f "$FOLDER/complete" ]; then
    # shellcheck disable=SC2086 # two packages
    sh "$(dirname "$0")/install.sh" --target "$FOLDER" $WANTED
    touch "$FOLDER/complete"
fi
echo "$FOLDER"
