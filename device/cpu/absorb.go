package cpu

import "github.com/weirgpu/weir/op"

// Absorbing is implemented by kernels for whose constant inputs the packed copy stands in full:
// once it is there, their contents can be let go of.
type Absorbing interface {
	// Absorbed lists the constant inputs whose contents nobody but Pack reads: [Prepare] goes by
	// their type and shape, and Bind and Run do not look at them.
	Absorbed() []int
}

// absorbed is the list of input 1 where it is a constant.
func absorbed(constant bool) []int {
	if constant {
		return []int{1}
	}
	return nil
}

// Absorbed implements [Absorbing].
func (k *convKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// Absorbed implements [Absorbing].
func (k *gemmKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// Absorbed implements [Absorbing].
func (k *convTransposeKernel) Absorbed() []int { return absorbed(true) }

// Absorbed implements [Absorbing].
func (k *byteConv) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [Absorbing].
func (k *byteDepthwise) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [Absorbing].
func (k *byteWindows) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [Absorbing].
func (k *byteProduct) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [Absorbing].
func (k *lstmKernel) Absorbed() []int {
	if k.b == nil {
		return []int{lstmW, lstmR}
	}
	return []int{lstmW, lstmR, lstmB}
}

// Absorbed implements [Absorbing].
func (k *byteLSTMKernel) Absorbed() []int { return []int{lstmW, lstmR} }

// Absorbed implements [Absorbing].
func (k *gruKernel) Absorbed() []int {
	if k.b == nil {
		return []int{gruW, gruR}
	}
	return []int{gruW, gruR, gruB}
}

// Absorbed implements [Absorbing].
func (k *nBits) Absorbed() []int {
	if k.zeros == nil {
		return []int{op.NBitsB, op.NBitsScales}
	}
	return []int{op.NBitsB, op.NBitsScales, op.NBitsZeros}
}
