package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// UseHarness gives the tests of this package the harness that tests of operators share.
func UseHarness(
	check func(t *testing.T, call *Call, in, want []*tensor.Tensor, kind error),
	eval func(t testing.TB, call *Call, in []*tensor.Tensor) ([]*tensor.Tensor, error),
	find func(t testing.TB, call *Call) *Op,
	hold func(ty Type, v *tensor.Tensor, env map[string]int) error,
	agree func(t *testing.T, call *Call, in, out []*tensor.Tensor),
	garbage func(i int, d tensor.DType, shape []int) (*tensor.Tensor, error),
	print func(v *tensor.Tensor) string) {
	checkCall, rawEval, row, holds = check, eval, find, hold
	rulesAgree, dirty, show = agree, garbage, print
}
