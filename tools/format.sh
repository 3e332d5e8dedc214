#!/usr/bin/env bash
# Formats every C, C++ and CUDA file of the tree with clang-format 14.
#
#   tools/format.sh [--check]      --check changes nothing, says what differs and exits with 1 if anything does
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
case "${1:-}" in
  "") ;;
  --check) mode=(--dry-run -Werror) ;;
  -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "unknown option $1; see --help" >&2; exit 2 ;;
esac
# The checkout may belong to another user than the one who builds, as in containers.
git -c safe.directory='*' ls-files '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format "${mode[@]}"
