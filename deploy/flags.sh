#!/bin/sh
# flags.sh: print what GOFLAGS must hold for packages to be compiled as in the static binary. check
# compiles all with it too: it tests what is given to people, and nothing is compiled twice.
#
# What gRPC and net/http would do of traces and HTTP/2 beside weir itself is left out.
#
# More than a megabyte is what functions take that are inlined where no time is spent: the packages
# below compute nothing for a request, and are compiled without. They read settings, and take
# requests in as encoding/json does. Left as they are: what evaluates operators (internal/op), the
# engine, the kernels, what gives turns (share), the queues and what moves bytes. modernc.org/libc
# is twice as large without. A fifth of a compiler's time is what it writes for debuggers: none runs
# there.
set -eu
cold="archive/tar archive/zip crypto/ecdh crypto/ecdsa crypto/elliptic crypto/hpke
  crypto/internal/fips140/ecdsa crypto/internal/fips140/rsa crypto/rsa crypto/sha3 crypto/tls
  crypto/x509 database/sql debug/elf encoding/asn1 encoding/csv encoding/json encoding/xml html
  internal/fmtsort internal/zstd io/fs mime/... net/url fmt log log/slog/... math/big
  os/exec regexp/... text/tabwriter text/template
  vendor/golang.org/x/crypto/cryptobyte vendor/golang.org/x/net/idna
  vendor/golang.org/x/text/... filippo.io/... go.yaml.in/... github.com/spf13/...
  github.com/coreos/... github.com/go-jose/... github.com/ulikunitz/xz/... golang.org/x/image/tiff
  google.golang.org/grpc google.golang.org/grpc/resolver/... google.golang.org/grpc/status
  google.golang.org/grpc/grpclog/...
  google.golang.org/grpc/internal/binarylog google.golang.org/protobuf/encoding/protojson
  google.golang.org/protobuf/encoding/prototext google.golang.org/protobuf/internal/descfmt
  google.golang.org/protobuf/internal/filedesc google.golang.org/protobuf/internal/impl
  google.golang.org/protobuf/proto google.golang.org/protobuf/reflect/... modernc.org/sqlite
  modernc.org/sqlite/lib oras.land/..."
weir=github.com/weirgpu/weir
cold="$cold $weir/agent $weir/cmd/weir $weir/feed $weir/grad $weir/graph $weir/internal/chart
  $weir/internal/conformance/... $weir/internal/op/microsoft $weir/internal/page
  $weir/internal/pass $weir/internal/roofline $weir/internal/terminal/... $weir/internal/trace
  $weir/internal/tune $weir/kube/place $weir/kube/sim $weir/plan/cache
  $weir/scenario/... $weir/server $weir/server/audit $weir/server/auth $weir/server/client
  $weir/server/config $weir/server/jobs $weir/server/kept $weir/server/repo $weir/server/sealed
  $weir/server/source $weir/server/store $weir/server/telemetry/... $weir/server/training
  $weir/server/web $weir/share/catalogue $weir/share/sim
  $weir/tensor/npy $weir/train/... $weir/zoo"
printf %s "-trimpath -tags=grpcnotrace,nethttpomithttp2 -gcflags=all=-dwarf=false"
for p in $cold; do printf " '-gcflags=%s=-l -dwarf=false'" "$p"; done
echo
