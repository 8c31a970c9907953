#!/bin/sh
# each.sh PROGRAM [ARGS]: run a test's program once with each of the instructions that ISAS names,
# as the argument -exec of go test: it is linked once. The variable is read before a test begins.
set -u
code=0
for isa in ${ISAS:?which instructions}; do
  echo "WEIR_ISA=$isa"
  WEIR_ISA=$isa "$@" || code=$?
done
exit $code
