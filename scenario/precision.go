package scenario

import (
	"fmt"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
)

// Precision names the arithmetic of matrix products and convolutions; empty stands for fp32.
type Precision string

// The precisions.
const (
	FP32 Precision = "fp32" // single precision
	// operands rounded to bfloat16 where that makes a product faster, sums in single precision
	BF16 Precision = "bf16"
	// bf16 where it also costs little accuracy, and fp32 on a processor that does not have it
	Auto Precision = "auto"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Precision) UnmarshalText(text []byte) error {
	*p = Precision(text)
	return p.fault()
}

func (p Precision) fault() error {
	switch p {
	case "", FP32, BF16, Auto:
		return nil
	}
	return fmt.Errorf("precision %q: want %s, %s or %s", string(p), FP32, BF16, Auto)
}

// Passes returns the optimiser's options for the precision on a device. It fails for a
// name that is none of the constants, and for bf16 where the device multiplies in fp32 only.
func (p Precision) Passes(on compute.Target) (pass.Options, error) {
	if err := p.fault(); err != nil {
		return pass.Options{}, err
	}
	switch {
	case p == BF16 && !on.Features().BF16:
		return pass.Options{},
			fmt.Errorf("precision %s: device %s multiplies in fp32 only: use %s or %s", BF16,
				on.Info().ID, FP32, Auto)
	case p == BF16:
		return pass.Options{Precision: pass.BF16}, nil
	case p == Auto && on.Features().BF16:
		return pass.Options{Precision: pass.AutoBF16}, nil
	}
	return pass.Options{}, nil
}

// PrecisionOf says what the products of a plan multiply in: bf16 if any of them does, else fp32.
func PrecisionOf(p *plan.Plan) Precision {
	for i := range p.Steps {
		if p.Steps[i].Node.Attrs.Has("precision") {
			return BF16
		}
	}
	return FP32
}
