#!/bin/sh
# Builds and runs a C file against an installed library: pkg_config.sh LIBDIR COMPILER SOURCE PROGRAM shared|static
set -e
command -v pkg-config >/dev/null || { echo "pkg-config is not installed"; exit 77; }
export PKG_CONFIG_PATH="$1/pkgconfig"
pkg-config --atleast-version=1.0 assay
if pkg-config --atleast-version=1.1 assay; then echo "pkg-config takes assay for 1.1 or later"; exit 1; fi
case $5 in
  shared) libraries="$(pkg-config --libs assay) -Wl,-rpath,$1" ;;
  static) libraries=$(pkg-config --define-variable=library=:libassay.a --static --libs assay) ;;
esac
"$2" -std=c99 -Wall -Wextra -Werror $(pkg-config --cflags assay) "$3" -o "$4" $libraries
if [ "$5" = static ] && readelf -d "$4" | grep libassay; then echo "$4 needs the shared library"; exit 1; fi
"$4"
