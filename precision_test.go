package weir_test

import (
	"context"
	"math"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/tensor"
)

// TestPrecisionNeedsDotProducts holds that a model is in float32, to the bit, where bfloat16 is not
// faster on this processor, as where it has no instructions for it, and that it is not where it is.
func TestPrecisionNeedsDotProducts(t *testing.T) {
	images, _, _ := digitsData(t)
	input := tensor.From(digits.Input(images[0]), 1, 1, digits.Side, digits.Side)
	probabilities := func(t *testing.T, p weir.Precision) []float32 {
		m, err := weir.Load(digits.Model, weir.WithPrecision(p))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		out, err := m.Run(context.Background(), weir.Inputs{"image": input})
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		x, err := weir.Data[float32](out.Output("probabilities"))
		if err != nil {
			t.Fatal(err)
		}
		return append([]float32(nil), x...)
	}
	cputest.EachPath(t, func(t *testing.T) {
		rate := 0.0 // that of bfloat16 on this path, of which a model makes use where it is enough
		if on := kernels.Target(device.Info{}).Features(); on.BF16 {
			rate = on.Costs.BF16Rate.Times()
		}
		full := probabilities(t, weir.FP32)
		for _, p := range []weir.Precision{weir.BF16, weir.Auto} {
			same := true
			for i, v := range probabilities(t, p) {
				same = same && math.Float32bits(v) == math.Float32bits(full[i])
			}
			if rate <= 1 && !same || rate >= 1.75 && same {
				t.Errorf("%s: the same bits as in float32: %v, at a rate of %v", p, same, rate)
			}
		}
	})
}

// TestOnePrecision holds that a program hands the jobs of a scenario the precision that it opens
// models with.
func TestOnePrecision(t *testing.T) {
	job := scenario.Job{Precision: weir.BF16}
	var p weir.Precision
	if err := p.UnmarshalText([]byte("bf16")); err != nil || p != job.Precision {
		t.Errorf("%q, %v", p, err)
	}
	if err := p.UnmarshalText([]byte("fp8")); err == nil {
		t.Error("fp8 is read as a precision")
	}
}
