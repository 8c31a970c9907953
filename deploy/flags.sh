#!/bin/sh
# flags.sh: print what GOFLAGS must hold for packages to be compiled as in the static binary. check
# compiles all with it too: it tests what is given to people, and nothing is compiled twice.
#
# What gRPC and net/http would do of traces and HTTP/2 beside weir itself is left out.
#
# More than a megabyte is what functions take that are inlined where no time is spent: the packages
# below compute nothing for a request, and are compiled without. They read settings, and take
# requests in as encoding/json does. Left as they are: what evaluates operators (internal/op, and
# device/cpu/kernels, of which what only plans are made by says go:noinline where it stands), what
# reads models (onnx: TestHostile bounds what a broken one takes), the engine, the kernels, what
# gives turns (share), the queues and what moves bytes. modernc.org/libc is twice as large without.
# A fifth of a compiler's time is what it writes for debuggers: none runs there.
#
# Each is given by its folder, and none by its import path that need not be: for each package of
# each test the go command compiles a regular expression anew of each import path, of folders once
# or never. A pattern is of folders where it begins with ../, from where the go command runs, which
# is anywhere in here: more of them than folders lead to the root. go version -m shows the last
# pattern, which is an import path for it to be the same on all machines.
set -eu
cd "$(dirname "$0")/.."
std="archive/tar archive/zip crypto/ecdh crypto/ecdsa crypto/elliptic crypto/hpke
  crypto/internal/fips140/bigmod crypto/internal/fips140/ecdsa crypto/internal/fips140/nistec/...
  crypto/internal/fips140/edwards25519/... crypto/internal/fips140/mlkem
  crypto/internal/fips140/rsa crypto/rsa crypto/sha3 crypto/tls
  crypto/x509 database/sql debug/elf encoding/asn1 encoding/csv encoding/json encoding/xml html
  encoding/pem flag internal/fmtsort internal/zstd io/fs mime/... net net/http net/netip net/url
  fmt log log/slog/... math/big net/textproto
  os os/exec path/filepath reflect regexp/... text/tabwriter text/template time
  vendor/golang.org/x/crypto/cryptobyte vendor/golang.org/x/net/idna
  vendor/golang.org/x/text/..."
others="filippo.io/... github.com/ebitengine/... go.yaml.in/... github.com/spf13/...
  github.com/coreos/... github.com/go-jose/... github.com/ulikunitz/...
  golang.org/x/image@.../tiff golang.org/x/sys@.../unix
  google.golang.org/grpc@.../internal/binarylog google.golang.org/grpc@.../internal/channelz
  google.golang.org/protobuf@.../encoding/protojson
  google.golang.org/protobuf@.../encoding/prototext
  google.golang.org/protobuf@.../internal/encoding/...
  google.golang.org/protobuf@.../internal/descfmt google.golang.org/protobuf@.../internal/filedesc
  google.golang.org/protobuf@.../internal/impl google.golang.org/protobuf@.../proto
  google.golang.org/protobuf@.../reflect/... modernc.org/sqlite@.../lib oras.land/..."
weir="agent cmd/weir device/far device/machine feed grad graph internal/chart
  internal/conformance/... internal/filelock internal/nvml internal/op/microsoft internal/page
  internal/pass internal/process internal/roofline internal/seat internal/shim/...
  internal/terminal/... internal/trace internal/tune internal/wholefile internal/yamlfile
  kube/place kube/sim plan/cache scenario/... server server/audit server/auth server/client
  server/config server/jobs server/kept server/repo server/sealed server/source server/steps
  server/store
  server/telemetry/... server/traffic server/training server/web share/catalogue share/sim
  tensor/npy train/..."
# As folders these would stand for more: what is beside each of them has the same name further down.
paths="google.golang.org/grpc google.golang.org/grpc/resolver/... google.golang.org/grpc/status
  google.golang.org/grpc/grpclog/... modernc.org/sqlite github.com/weirgpu/weir/plan
  github.com/weirgpu/weir github.com/weirgpu/weir/zoo"
root=../../../../../../../../../../../../../../../../../../../..
without() { for p; do printf " '-gcflags=%s=-l -dwarf=false'" "$p"; done; }
in_folder() { # FOLDER PATTERN...: all is inlined of a folder whose name flags cannot hold
  case $1 in *[=\'\"]*) return ;; esac
  folder=$1
  shift
  for p; do without "$root$folder/$p"; done
}
printf %s "-trimpath -tags=grpcnotrace,nethttpomithttp2 -gcflags=all=-dwarf=false"
in_folder "$(go env GOROOT)/src" $std
in_folder "$(go env GOMODCACHE)" $others
in_folder "$PWD" $weir
without $paths
echo
