#!/bin/sh
# Tests the Go module with the race detector and all checks of pointers: go.sh LIBDIR MODULE
set -e
. "$(dirname "$0")/environment.sh"
need go gofmt pkg-config
cd "$2"
differences=$(gofmt -d .)
if [ -n "$differences" ]; then echo "$differences"; exit 1; fi
go vet ./...
case $(go env GOVERSION) in
  go1.19* | go1.20*) export GODEBUG=cgocheck=2 ;;
  *) export GOEXPERIMENT=cgocheck2 ;;
esac
go test -race -count=1 ./...
