#!/bin/sh
# static.sh OUT [LDFLAGS]: build weir as one static file that needs nothing of its host, for GOARCH.
# NVIDIA's library is left out, and what flags.sh says. LDFLAGS are -s -w where none are given:
# without symbols. What aligns functions is left out, too: it takes hundreds of kilobytes.
set -eu
out=${1:?usage: static.sh OUT [LDFLAGS]}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/.."
GOFLAGS="$(go env GOFLAGS) $(deploy/flags.sh)"
export GOFLAGS
CGO_ENABLED=0 GOOS=linux exec go build -tags nogpu,grpcnotrace,nethttpomithttp2 \
  -ldflags="${2:--s -w} -funcalign=1" -o "$out" ./cmd/weir
