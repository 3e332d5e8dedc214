#!/usr/bin/env bash
# Runs clang-tidy on the sources that changed since a commit (default: all), against the build in build/test.
#
#   tools/tidy.sh [COMMIT]      e.g. tools/tidy.sh HEAD~1
#
# The build gives the compiler's options: tools/test.sh makes it. Exit code 0: no findings.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
[ -e build/test/compile_commands.json ] || { echo "there is no build in build/test; tools/test.sh makes it" >&2; exit 2; }
if [ $# -gt 0 ]; then files=$(git diff --name-only --diff-filter=d "$1" -- '*.cpp'); else files=$(git ls-files '*.cpp'); fi
files=$(printf '%s\n' "$files" | grep -v '^tests/fuzz/' || true)
[ -n "$files" ] || { echo "no source changed"; exit 0; }
printf '%s\n' "$files" | xargs -P "$(nproc)" -n 4 clang-tidy -p build/test --quiet
