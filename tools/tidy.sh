#!/usr/bin/env bash
# Runs clang-tidy on the sources that changed since a commit (default: all), against the build in build/test.
#
#   tools/tidy.sh [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then files=$(git diff --name-only --diff-filter=d "$1" -- '*.cpp'); else files=$(git ls-files '*.cpp'); fi
files=$(printf '%s\n' "$files" | grep -v '^tests/fuzz/' || true)
[ -n "$files" ] || { echo "no source changed"; exit 0; }
printf '%s\n' "$files" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/test --quiet
