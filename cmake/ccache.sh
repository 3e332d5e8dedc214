#!/bin/sh
# Compiles through ccache. An old precompiled header goes before a new one is made: gcc takes it into the preprocessed
# text (-fpch-preprocess), by which ccache then finds a result that is as old.
previous=
for word; do
  case "$previous $word" in "-o "*.gch) rm -f "$word" ;; esac
  previous=$word
done
exec ccache "$@"
