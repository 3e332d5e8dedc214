#!/bin/sh
# Compares what cases.txt gives in C, and in Go and Rust where they are installed:
# cases.sh LIBDIR BINDINGS PROGRAM-IN-C FOLDER
set -e
. "$(dirname "$0")/environment.sh"
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$4"
mkdir -p "$4"

# run LANGUAGE PROGRAM...: in a folder of its own, with the files that cases.txt names.
run() {
  language=$1
  shift
  mkdir "$folder/$language"
  cd "$folder/$language"
  . "$here/prepare_cases.sh"
  "$@" "$bindings/cases/cases.txt" >"$folder/$language.txt"
  cmp "$folder/c.txt" "$folder/$language.txt"
}

folder=$(cd "$4" && pwd) bindings=$2 others=0
run c "$3"
test "$(wc -l <"$folder/c.txt")" -gt 100
command -v pkg-config >/dev/null || { echo "pkg-config is not installed"; exit 77; }
if command -v go >/dev/null; then
  (cd "$2/go" && go build -o "$folder/cases_go" ./internal/cases)
  run go "$folder/cases_go"
  others=$((others + 1))
fi
if command -v cargo >/dev/null; then
  (cd "$2/rust" && CARGO_TARGET_DIR="$folder/../cargo" cargo build --offline --locked --example cases)
  run rust "$folder/../cargo/debug/examples/cases"
  others=$((others + 1))
fi
if [ $others = 0 ]; then echo "neither go nor cargo is installed"; exit 77; fi
echo "C and $others other languages gave the same"
