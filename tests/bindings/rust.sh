#!/bin/sh
# Tests the Rust crates, with the library shared and as a part of the program: rust.sh LIBDIR CRATES FOLDER
set -e
. "$(dirname "$0")/environment.sh"
need cargo cc pkg-config
cd "$2"
if cargo fmt --version; then cargo fmt --check; fi
export CARGO_TARGET_DIR="$3"
if cargo clippy --version; then cargo clippy --offline --locked --all-targets -- -D warnings; fi
cargo test --offline --locked
cargo test --offline --locked --features static --test program
