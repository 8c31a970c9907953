package kernels

import (
	"fmt"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// mixedGemm is a product that passes have chosen to multiply in bfloat16 by a cost model. Where it
// was measured that rounding its operands takes longer than that saves, it multiplies in float32.
type mixedGemm struct {
	*gemmKernel
	problem  string
	measured bool
}

// The ways of a mixedGemm.
const (
	wayBF16 = "bf16"
	wayF32  = "f32"
)

// mixed lets a product choose the format of its multiplications by what was measured.
func (k *gemmKernel) mixed(c compute.Choices) (compute.Kernel, error) {
	p := &k.params
	m := &mixedGemm{gemmKernel: k, problem: fmt.Sprintf("product bf16 %dx%dx%d batch=%d "+
		"transposed=%t,%t constant=%t", p.M, p.K, p.N, max(1, p.Batch), p.TransA, p.TransB,
		k.weight != nil)}
	switch c[m.problem] {
	case wayF32:
		p.Format = gemm.F32
		m.measured = true
	case wayBF16:
		m.measured = true
	}
	return m, k.plan()
}

// Problem implements [compute.Choosing].
func (k *mixedGemm) Problem() string { return k.problem }

// Algorithms implements [compute.Choosing].
func (k *mixedGemm) Algorithms() []string { return []string{wayBF16, wayF32} }

// Algorithm implements [compute.Choosing].
func (k *mixedGemm) Algorithm() string {
	if k.params.Format == gemm.BF16 {
		return wayBF16
	}
	return wayF32
}

// Measured implements [compute.Choosing].
func (k *mixedGemm) Measured() bool { return k.measured }
