#!/bin/sh
# static.sh OUT [LDFLAGS]: build weir as one static file that needs nothing of its host, for GOARCH.
# NVIDIA's library is left out, and so is what gRPC and net/http would do of traces and HTTP/2
# beside weir itself. LDFLAGS are -s -w where none are given: without symbols.
#
# A megabyte is what functions take that are inlined where no time is spent, and what aligns them:
# the packages below compute nothing for a request, and are compiled without. Left as they are: what
# evaluates operators (internal/op), and what the engine, the kernels and the server call.
set -eu
out=${1:?usage: static.sh OUT [LDFLAGS]}
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")/.."
ldflags=${2:--s -w}
cold="archive/tar archive/zip crypto/elliptic crypto/internal/fips140/rsa crypto/rsa crypto/tls
  crypto/x509 database/sql debug/elf encoding/asn1 encoding/json encoding/xml html internal/zstd
  mime/... net/url fmt math/big regexp/... text/tabwriter text/template filippo.io/...
  go.yaml.in/... github.com/spf13/... github.com/coreos/... github.com/go-jose/...
  google.golang.org/protobuf/encoding/protojson google.golang.org/protobuf/encoding/prototext
  google.golang.org/protobuf/internal/descfmt google.golang.org/protobuf/internal/filedesc
  oras.land/..."
weir=github.com/weirgpu/weir
cold="$cold $weir/agent $weir/cmd/weir $weir/feed $weir/grad $weir/graph $weir/internal/chart
  $weir/internal/conformance/... $weir/internal/op/microsoft $weir/internal/page
  $weir/internal/pass $weir/internal/roofline $weir/internal/terminal/... $weir/internal/tune
  $weir/onnx $weir/plan/cache $weir/scenario/... $weir/server/audit $weir/server/auth
  $weir/server/config $weir/server/jobs $weir/server/kept $weir/server/repo $weir/server/sealed
  $weir/server/source $weir/server/store $weir/server/training $weir/server/web
  $weir/share/catalogue $weir/share/sim $weir/tensor/npy $weir/train/... $weir/zoo"
set --
for p in $cold; do set -- "$@" "-gcflags=$p=-l"; done
CGO_ENABLED=0 GOOS=linux exec go build -tags nogpu,grpcnotrace,nethttpomithttp2 -trimpath \
  -ldflags="$ldflags -funcalign=1" "$@" -o "$out" ./cmd/weir
