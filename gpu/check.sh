#!/usr/bin/env bash
# Checks weir exec on this machine's NVIDIA GPU, in under ten minutes: the memory cap, shares,
# limits, latency and faults, with programs that call the driver, and with PyTorch, Triton, CuPy,
# JAX and nvcc as far as they are there. Writes one JSON file with driver and date and PASS, FAIL or
# SKIP for each check.
#
#   gpu/check.sh                                      builds weir here (needs Go and a C compiler)
#   gpu/check.sh --weir ./weir --shim ./libweir-cuda.so     takes what gpu/pack.sh built elsewhere
#   gpu/check.sh --fake                               the same harness on the fake driver: checks
#                                                     the logic, not a GPU
#   gpu/check.sh --list                               names the checks
#
# Its checks named "facts: ..." settle what weir believes of the driver (gpu/facts.md); a result
# below bench/results/gpu that is committed fills in that page: go generate ./gpu/facts
#
# Other options: --out FILE (default: bench/results/gpu/DATE-DRIVER.json, or with --fake standard
# output), --python PYTHON (default: python3), --budget SECONDS (570), --only TEXT (checks whose
# name contains it; repeat for more).
# Exit codes: 0 all that could be checked holds, 1 something does not, 2 the command line is wrong.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
weir="" shim="" python=python3 out="" fake=""
pass=()

usage() {
  sed -n '2,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --weir | --shim | --python | --out | --budget | --only)
      [ $# -ge 2 ] || usage
      case $1 in
        --weir) weir=$2 ;;
        --shim) shim=$2 ;;
        --python) python=$2 ;;
        --out) out=$2 ;;
        *) pass+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    --fake) fake=1 && shift ;;
    --no-agent) pass+=("$1") && shift ;;
    --list) exec "$python" "$here/check.py" --list ;;
    *) usage ;;
  esac
done

fail() {
  echo "gpu/check.sh: $*" >&2
  exit 2
}

command -v "$python" >/dev/null || fail "no $python: name one with --python"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "$weir" ]; then
  command -v go >/dev/null ||
    fail "no Go here: build with gpu/pack.sh elsewhere and give --weir and --shim"
  (cd "$here/.." && go build -o "$scratch/weir" ./cmd/weir)
  weir=$scratch/weir
fi
[ -x "$weir" ] || fail "$weir is no executable"
[ -z "$shim" ] || [ -r "$shim" ] || fail "cannot read $shim"

if [ -z "$fake" ] && ! "$weir" device list --json 2>/dev/null | grep -q '"kind": "cuda"'; then
  fail "weir sees no GPU here: $("$weir" device list 2>&1 >/dev/null)"
fi

if [ -z "$out" ] && [ -z "$fake" ]; then
  driver=$("$weir" device list --json 2>/dev/null |
    sed -n 's/.*"version": "\(.*\)",.*/\1/p' | head -n 1)
  mkdir -p "$here/../bench/results/gpu"
  out=$(cd "$here/../bench/results/gpu" && pwd)/$(date -u +%Y-%m-%d)-$driver.json
fi

status=0
# The harness keeps to its budget, and writes the result after each check; the outer bound is for a
# driver that hangs.
PYTHONPATH=$here timeout --kill-after=10 590 "$python" "$here/check.py" \
  --weir "$weir" ${shim:+--shim "$shim"} --python "$(command -v "$python")" ${out:+--out "$out"} \
  ${fake:+--fake} ${pass[@]+"${pass[@]}"} || status=$?
[ -z "$out" ] || [ ! -s "$out" ] || echo "result: $out" >&2
exit "$status"
