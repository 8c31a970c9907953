#!/usr/bin/env bash
# arm64.sh quick | suite | agreement | lies: what runs on arm64 is tested on another machine, by
# the user-mode emulation of QEMU (Debian: qemu-user), on a Cortex-A72, which has nothing beyond
# the first Armv8, and on max, which has all that the emulator knows. CPUS names others.
#
#   quick      the tests of kernels that take no more than seconds: a part of each check
#   suite      all tests of all packages, with -short, but for those that emulated.txt names with a
#              reason; SHARD=2/5 takes every fifth package from the second on
#   agreement  ONNX's own cases, and the same results as ONNX Runtime on real and standard models;
#              CASES='^(node|simple)/' takes those cases of ONNX's alone, in minutes, and
#              MODELS='digits minilm' those models
#   lies       a system that claims instructions which a processor lacks: products are computed all
#              the same, with the same results as on one that has them; and one that hides them
#
# Suite and agreement take the better part of an hour each, alone on a machine. Exit code: 0, or
# that of the first that failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
emulator=$(command -v qemu-aarch64) || {
  echo "no qemu-aarch64 (Debian: qemu-user): nothing of arm64 is tested" >&2
  exit 2
}
cpus=${CPUS:-cortex-a72 max}
export CGO_ENABLED=0

emulated() { # CPU ARGUMENTS: go test of arm64
  echo "emulated $1:"
  GOARCH=arm64 go test -vet=off -short -timeout 60m -exec "$emulator -cpu $1" "${@:2}"
}

quick() {
  local tests='Product.*|RandomConvolutions|RandomPools|Elementary.*|Activation.*|Conversions'
  tests="$tests|Softmax|LayerNorm|EveryTile|Transpose|Requantize.*|NothingOutsideIsTouched|Sums"
  tests="$tests|FusedRoundsOnce|Accuracy|Path.*|SelfCheck.*|.*OnArm64"
  tests="$tests|Words|EqualInt32|ArgMax.*|BFloat16.*"
  # Later extensions multiply: what computes element by element is the same on each processor.
  local packages=./internal/kernel/...
  for cpu in $cpus; do
    emulated "$cpu" -run "^(Test($tests)|Fuzz.*)\$" ./internal/cpuinfo $packages
    packages="./internal/kernel/gemm ./internal/kernel/conv ./internal/kernel/nbits"
  done
}

# left_out SCRIPT: the names in emulated.txt that sed's SCRIPT takes out of its lines.
left_out() { sed -n "/^#/d; $1" internal/cputest/emulated.txt; }

# All that is of one instruction set is tested but for what emulated.txt names. Packages of which
# single tests are left out go by themselves, so that a test of the same name elsewhere runs.
suite() {
  local shard=${SHARD:-1/1} packages parts whole package skip cpu status=0
  parts=$(left_out 's/^\([^ :]*\) [^ :]*: .*/\1/p' | sort -u)
  packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... |
    sed "s,^$(go list -m),.," | grep -vxF "$(left_out 's/^\([^ :]*\): .*/\1/p')" |
    awk -v "i=${shard%/*}" -v "n=${shard#*/}" 'NR % n == i % n')
  whole=$(grep -vxF "$parts" <<<"$packages") || true
  for cpu in $cpus; do
    # shellcheck disable=SC2086
    [ -z "$whole" ] || emulated "$cpu" $whole || status=$?
    for package in $(grep -xF "$parts" <<<"$packages"); do
      skip=$(left_out "s,^$package \([^ :]*\): .*,\1,p" | paste -sd'|')
      emulated "$cpu" -skip "^($skip)\$" "$package" || status=$?
    done
  done
  printf 'left out, by internal/cputest/emulated.txt:\n'
  grep -v '^#' internal/cputest/emulated.txt
  return $status
}

agreement() {
  local status all='(Engine|Far|Microsoft|MicrosoftExpands|MLAgreesWithPeer|Metamorphic.*)$'
  if [ -n "${CASES:-}" ]; then
    for cpu in $cpus; do
      emulated "$cpu" -run '^TestEngine$' ./internal/conformance -cases "$CASES"
    done
    return
  fi
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  GOARCH=arm64 deploy/static.sh "$folder/weir-arm64"
  for cpu in $cpus; do
    [ -n "${MODELS:-}" ] || emulated "$cpu" -run "^Test$all" ./internal/conformance
    printf '#!/bin/sh\nexec "%s" -cpu %s "%s" "$@"\n' "$emulator" "$cpu" "$folder/weir-arm64" \
      >"$folder/weir"
    chmod +x "$folder/weir"
    status=0
    # shellcheck disable=SC2086
    python3 internal/conformance/peer/compare.py --weir "$folder/weir" ${MODELS:-} || status=$?
    if [ "$status" = 3 ]; then
      echo "left out: the package registry does not answer, or there is no Python"
    elif [ "$status" != 0 ]; then
      exit "$status"
    fi
  done
}

# The program is built with another answer in place of what the system says.
lies() {
  local cpu form says source=$PWD/internal/cpuinfo/auxv.go
  local guest=./bench/instructions/guest
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  GOARCH=arm64 go build -o "$folder/honest" $guest
  for says in true false; do
    sed 's/^func auxFeatures(/func unheard(/' "$source" >"$folder/$says.go"
    printf '\nfunc auxFeatures([]byte) armFeatures { return armFeatures{%s, %s, %s} }\n' \
      $says $says $says >>"$folder/$says.go"
    printf '{"Replace": {"%s": "%s"}}' "$source" "$folder/$says.go" >"$folder/overlay"
    GOARCH=arm64 go build -overlay "$folder/overlay" -o "$folder/says-$says" $guest
  done
  for form in fp32 bf16 int8; do
    "$emulator" -cpu max "$folder/honest" product $form 20 40 64 1 "$folder/want"
    for cpu in cortex-a72:true neoverse-n1:true max:true max:false; do
      "$emulator" -cpu "${cpu%:*}" "$folder/says-${cpu#*:}" product $form 20 40 64 1 "$folder/got"
      cmp "$folder/want" "$folder/got"
      echo "$form as it should be on ${cpu%:*}, all extensions there: ${cpu#*:}"
    done
  done
}

case ${1:-} in
  quick | suite | agreement | lies) "$1" ;;
  *) sed -n '2,/^set/p' "$0" >&2; exit 2 ;;
esac
