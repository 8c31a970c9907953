package conv

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// Algorithm names a way of computing a convolution.
type Algorithm string

// The algorithms. What they compute differs by rounding only, in tiles by more of it: see the
// package's description.
const (
	AlgoProduct   Algorithm = "product"   // of matrices, weights by patches
	AlgoPixels    Algorithm = "pixels"    // the same with pixels as rows, the result transposed
	AlgoDepthwise Algorithm = "depthwise" // each channel by itself
	// in transformed tiles (Lavin and Gray, "Fast algorithms for convolutional neural networks",
	// CVPR 2016)
	AlgoWinograd Algorithm = "winograd"
)

type kind uint8

const (
	kindDense     kind = iota // rows of tiles are output channels
	kindPixelRows             // rows of tiles are pixels
	kindDepthwise
	kindWinograd
	kinds
)

// algorithm names a kind.
func (k kind) algorithm() Algorithm {
	return [...]Algorithm{kindDense: AlgoProduct, kindPixelRows: AlgoPixels,
		kindDepthwise: AlgoDepthwise, kindWinograd: AlgoWinograd}[k]
}

// Algorithm returns the one that was chosen.
func (o *Convolution) Algorithm() Algorithm { return o.kind.algorithm() }

// Algorithms returns those that may compute the convolution at the current instruction level,
// the one that the cost model chooses first. Which of them is the fastest, measuring tells. It is
// nil for Params that New refuses.
func (p Params) Algorithms() []Algorithm {
	p.Algorithm = ""
	o, err := New(p)
	if err != nil {
		return nil
	}
	list := []Algorithm{o.Algorithm()}
	for k := range kinds {
		if k != o.kind && o.p.may(k) {
			list = append(list, k.algorithm())
		}
	}
	return list
}

// Problem identifies what is computed as far as the time of each algorithm depends on it: two
// Params of equal problems have the same Algorithms, and on one machine the same one is the fastest
// for both. It is a line of text for people, too, such as "conv f32 1x64x56x56 m128 k3x3 s1x1
// p1x1,1x1 bias clamp".
func (p Params) Problem() string {
	w := p.Window
	if _, err := w.setDefaults(); err != nil {
		return ""
	}
	first := 0 // axis that the image has
	for first < 2 && w.trivial(first) {
		first++
	}
	axes := func(n [3]int) string {
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(n[first:])), "x"), "[]")
	}
	group := max(p.Group, 1)
	format := "f32"
	if p.Format == gemm.BF16 {
		format = "bf16"
	}
	b := fmt.Appendf(nil, "conv %s %dx%dx%s m%d k%s s%s p%s,%s", format, p.N, p.C, axes(w.In), p.M,
		axes(w.Kernel), axes(w.Stride), axes(w.PadLo), axes(w.PadHi))
	if w.Dilate != [3]int{1, 1, 1} {
		b = fmt.Appendf(b, " d%s", axes(w.Dilate))
	}
	if group > 1 {
		b = fmt.Appendf(b, " g%d", group)
	}
	for _, part := range []struct {
		there bool
		name  string
	}{{!p.Reused, "repacked"}, {p.Turned, "turned"}, {p.Bias, "bias"},
		{p.Residual, "residual"}, {p.Clamp, "clamp"}, {p.Map != nil, "map"}} {
		if part.there {
			b = append(append(b, ' '), part.name...)
		}
	}
	return string(b)
}

// kind is the algorithm asked for, or else the one that the cost model chooses.
func (p *Params) kind(out [3]int) (kind, error) {
	if p.Algorithm == "" {
		return p.choose(out)
	}
	for k := range kinds {
		if k.algorithm() == p.Algorithm && p.may(k) {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%w: %q is no algorithm for it: leave the choice to New, or take one of "+
		"Algorithms", ErrParams, p.Algorithm)
}

// choose is the cost model.
func (p *Params) choose(out [3]int) (kind, error) {
	switch {
	case p.channelwise() && p.Format != gemm.F32:
		return 0, fmt.Errorf("%w: a depthwise convolution multiplies in float32 only", ErrParams)
	case p.channelwise():
		return kindDepthwise, nil
	case p.transforms(out):
		return kindWinograd, nil
	case p.pixelsAsRows(out):
		return kindPixelRows, nil
	}
	return kindDense, nil
}

// fewFilters is the number of output channels a group from which products may be worth their tiles
// when a group has one input channel.
const fewFilters = 4

// may reports whether an algorithm can compute the convolution and is not out of the question.
func (p *Params) may(k kind) bool {
	switch k {
	case kindDepthwise:
		return p.channelwise()
	case kindWinograd:
		return p.transformable() && p.C*p.M <= transformedWeights
	}
	return !p.channelwise() || p.M/p.Group >= fewFilters
}

// channelwise reports whether each channel can be computed by itself.
func (p *Params) channelwise() bool {
	return p.Group == p.C && p.trivial(0) && (p.M == p.C || p.Stride[2] <= 2)
}
