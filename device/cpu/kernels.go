package cpu

import "sync"

// builders is the table of fast kernels: which builder prepares which operator. An operator that is not here runs by its
// reference evaluation. It is made on first use because builders refer to Prepare.
var builders = sync.OnceValue(func() map[opKey]builder {
	m := map[opKey]builder{}
	for _, family := range []map[opKey]builder{
		unaryKernels, binaryKernels, compareKernels, variadicKernels, whereKernels, castKernels, matmulKernels, softmaxKernels,
		reduceKernels, normKernels, convKernels, movementKernels, padKernels, poolKernels, convTransposeKernels, gatherKernels, resizeKernels, lstmKernels, argKernels,
	} {
		for k, b := range family {
			m[k] = b
		}
	}
	return m
})
