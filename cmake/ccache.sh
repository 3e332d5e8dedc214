#!/bin/sh
# Compiles through ccache, for which a precompiled header is an input like others, and so that another clone finds what
# one has compiled; CCACHE_SLOPPINESS and CCACHE_BASEDIR in the environment come first. An old precompiled header goes before a new one is made: gcc takes it into the preprocessed text
# (-fpch-preprocess), by which ccache then finds a result that is as old.
previous=
for word; do
  case "$previous $word" in "-o "*.gch) rm -f "$word" ;; esac
  previous=$word
done
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS-pch_defines,time_macros}"
export CCACHE_BASEDIR="${CCACHE_BASEDIR-$(realpath "$(dirname "$0")/..")}"
exec ccache "$@"
