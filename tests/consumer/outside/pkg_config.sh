#!/bin/sh
# Builds and runs a C file against an installed library: pkg_config.sh LIBDIR COMPILER SOURCE PROGRAM
set -e
command -v pkg-config >/dev/null || { echo "pkg-config is not installed"; exit 77; }
export PKG_CONFIG_PATH="$1/pkgconfig"
"$2" -std=c99 -Wall -Wextra -Werror $(pkg-config --cflags assay) "$3" -o "$4" $(pkg-config --libs assay) "-Wl,-rpath,$1"
"$4"
