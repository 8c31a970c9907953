package pass

import (
	"fmt"

	"github.com/weirgpu/weir/device/compute"
)

// Precision names the arithmetic of matrix products and convolutions. The empty name stands for
// [FP32]. Package weir has it under the same name, with methods and constants.
type Precision string

// The precisions.
const (
	FP32 Precision = "fp32" // single precision
	// BF16 rounds the operands of products to bfloat16 where that makes them faster; sums stay in
	// single precision. Results agree with those of FP32 to two or three digits.
	BF16 Precision = "bf16"
	// Auto is BF16 without the last products before an output, unless the graph is a step of
	// training.
	Auto Precision = "auto"
	// FP16 rounds operands and results of products to float16, for training as on hardware that
	// has it: here it is slower, and shows what such hardware would compute.
	FP16 Precision = "fp16"
)

// String returns the name, that of [FP32] for the empty one.
func (p Precision) String() string {
	if p == "" {
		return string(FP32)
	}
	return string(p)
}

// Validate returns an error for a name that is neither empty nor one of the constants.
func (p Precision) Validate() error {
	switch p {
	case "", FP32, BF16, Auto, FP16:
		return nil
	}
	return fmt.Errorf("precision %q: want %s, %s or %s", string(p), FP32, BF16, Auto)
}

// UnmarshalText implements encoding.TextUnmarshaler, as flags and files of settings use it. It
// fails for a name that is neither empty nor one of the constants.
func (p *Precision) UnmarshalText(text []byte) error {
	*p = Precision(text)
	return p.Validate()
}

// PrecisionOn returns the precision in which a target can multiply where p is asked for: Auto
// becomes FP32 where it has no bfloat16. It fails for a name that is none of the constants, and for
// BF16 on such a target.
func PrecisionOn(t compute.Target, p Precision) (Precision, error) {
	if err := p.Validate(); err != nil {
		return "", err
	}
	switch {
	case !p.mixed():
		return FP32, nil
	case p == FP16:
		return "", fmt.Errorf("precision %s: it is emulated, for training: use %s or %s", FP16,
			FP32, Auto)
	case t.Features().BF16:
		return p, nil
	case p == BF16:
		return "", fmt.Errorf("precision %s: device %s multiplies in fp32 only: use %s or %s", BF16,
			t.Info().ID, FP32, Auto)
	}
	return FP32, nil
}

// mixed reports whether some products may multiply in 16 bits.
func (p Precision) mixed() bool { return p == BF16 || p == Auto || p == FP16 }
