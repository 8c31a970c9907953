#!/bin/sh
# static.sh OUT [LDFLAGS]: build weir as one static file that needs nothing of its host, for GOARCH.
# NVIDIA's library is left out, and so is what gRPC and net/http would do of traces and HTTP/2
# beside weir itself. LDFLAGS are -s -w where none are given: without symbols.
#
# Half a megabyte is what functions take that are inlined where no time is spent, and what aligns
# them: the packages below compute nothing for a request, and are compiled without.
set -eu
out=${1:?usage: static.sh OUT [LDFLAGS]}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/.."
ldflags=${2:--s -w}
cold="crypto/tls crypto/x509 debug/elf encoding/xml go.yaml.in/... github.com/spf13/...
  github.com/coreos/... github.com/go-jose/... oras.land/..."
weir=github.com/weirgpu/weir
cold="$cold $weir/cmd/weir $weir/grad $weir/scenario/... $weir/internal/page $weir/internal/chart
  $weir/internal/terminal/... $weir/server/web $weir/server/config $weir/server/repo
  $weir/server/source"
set --
for p in $cold; do set -- "$@" "-gcflags=$p=-l"; done
CGO_ENABLED=0 GOOS=linux exec go build -tags nogpu,grpcnotrace,nethttpomithttp2 -trimpath \
  -ldflags="$ldflags -funcalign=1" "$@" -o "$out" ./cmd/weir
