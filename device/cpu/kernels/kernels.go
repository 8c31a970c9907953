package kernels

import (
	"slices"
	"sync"

	"github.com/weirgpu/weir/internal/op"
)

// builders is the table of fast kernels: which builder prepares which operator. An operator that is
// not here runs by its reference evaluation. It is made on first use because builders refer to
// prepare.
var builders = sync.OnceValue(func() map[opKey]builder {
	m := map[opKey]builder{}
	for _, family := range []map[opKey]builder{
		unaryKernels, binaryKernels, compareKernels, variadicKernels, whereKernels, castKernels,
		matmulKernels, softmaxKernels, reduceKernels, argKernels, normKernels, convKernels,
		convTransposeKernels, poolKernels, movementKernels, padKernels, gatherKernels,
		resizeKernels, lstmKernels, byteLSTMKernels, forestKernels, quantizeKernels,
		byteProductKernels, byteConvKernels, gridConvKernels, rescaleKernels, pixelKernels,
		pixel16Kernels, attentionKernels, nBitsKernels, gruKernels, unscaleKernels,
		batchNormKernels, poolGradientKernels, reluGradientKernels, convWeightsKernels,
		geluGradientKernels, dropoutKernels, descentKernels, normGradientKernels,
		recurrentGradientKernels, scatterKernels,
	} {
		for k, b := range family {
			m[k] = b
		}
	}
	return m
})

// Operators lists the operators that have a fast kernel for some of their types and attributes,
// sorted, as [op.Call.Name] writes them: "Conv", "weir:Conv".
func Operators() []string {
	var names []string
	for k := range builders() {
		c := op.Call{Domain: k.domain, Type: k.name}
		names = append(names, c.Name())
	}
	slices.Sort(names)
	return names
}
