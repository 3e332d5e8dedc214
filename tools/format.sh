#!/usr/bin/env bash
# Formats every C and C++ file of the tree; with --check only says which files differ.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run -Werror)
# The checkout may belong to another user than the one who builds, as in containers.
git -c safe.directory='*' ls-files '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format "${mode[@]}"
