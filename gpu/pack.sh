#!/usr/bin/env bash
# Builds here, with Go and a C compiler, what gpu/check.sh needs on a machine that has neither, and
# packs it into one archive:
#
#   gpu/pack.sh [ARCHIVE]          (default: weir-gpu-check.tar.gz)
#   on the other machine: tar xzf weir-gpu-check.tar.gz && cd weir-gpu-check &&
#                         gpu/check.sh --weir ./weir --shim ./libweir-cuda.so
#
# The binary needs no more of the other machine than its dynamic loader; the library needs a C
# library as new as this machine's.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
archive=${1:-weir-gpu-check.tar.gz}
case $archive in /*) ;; *) archive=$PWD/$archive ;; esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pack=$scratch/weir-gpu-check
mkdir -p "$pack/gpu/workloads"

cd "$here/.."
cp "$(go run ./gpu/buildshim "$scratch/cache")" "$pack/libweir-cuda.so"
# As a release is built: the binary carries the library.
mkdir -p internal/shim/release
cp "$pack/libweir-cuda.so" internal/shim/release/
CGO_ENABLED=0 go build -trimpath -tags weirshim -o "$pack/weir" ./cmd/weir
rm -r internal/shim/release
cp gpu/check.sh gpu/*.py "$pack/gpu/"
cp gpu/workloads/*.py gpu/workloads/*.cu "$pack/gpu/workloads/"
tar -C "$scratch" -czf "$archive" weir-gpu-check
echo "$archive: $(du -h "$archive" | cut -f1)" >&2
