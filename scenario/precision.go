package scenario

import (
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
)

// PrecisionOf says what the products of a plan multiply in: bf16 if any of them does, else fp32.
func PrecisionOf(p *plan.Plan) pass.Precision {
	for i := range p.Steps {
		if p.Steps[i].Node.Attrs.Has("precision") {
			return pass.BF16
		}
	}
	return pass.FP32
}
