package cpu

import "github.com/weirgpu/weir/op"

// absorbed is the list of input 1 where it is a constant.
func absorbed(constant bool) []int {
	if constant {
		return []int{1}
	}
	return nil
}

// Absorbed implements [compute.Absorbing].
func (k *convKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// Absorbed implements [compute.Absorbing].
func (k *gemmKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// Absorbed implements [compute.Absorbing].
func (k *convTransposeKernel) Absorbed() []int { return absorbed(true) }

// Absorbed implements [compute.Absorbing].
func (k *byteConv) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [compute.Absorbing].
func (k *byteDepthwise) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [compute.Absorbing].
func (k *byteWindows) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [compute.Absorbing].
func (k *byteProduct) Absorbed() []int { return []int{k.in.b} }

// Absorbed implements [compute.Absorbing].
func (k *lstmKernel) Absorbed() []int {
	if k.b == nil {
		return []int{lstmW, lstmR}
	}
	return []int{lstmW, lstmR, lstmB}
}

// Absorbed implements [compute.Absorbing].
func (k *byteLSTMKernel) Absorbed() []int { return []int{lstmW, lstmR} }

// Absorbed implements [compute.Absorbing].
func (k *gruKernel) Absorbed() []int {
	if k.b == nil {
		return []int{gruW, gruR}
	}
	return []int{gruW, gruR, gruB}
}

// Absorbed implements [compute.Absorbing].
func (k *nBits) Absorbed() []int {
	if k.zeros == nil {
		return []int{op.NBitsB, op.NBitsScales}
	}
	return []int{op.NBitsB, op.NBitsScales, op.NBitsZeros}
}
