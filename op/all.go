package op

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

type key struct{ domain, name string }

// families returns the tables of all operator families, one file each. It is a function, as those
// of compositions are, because definitions refer to Lookup, so that an initialised variable would
// be a cycle.
func families() [][]Op {
	return slices.Concat(onnxFamilies, [][]Op{microsoftOps()})
}

// onnxFamilies are the operators of ONNX and weir's own.
var onnxFamilies = [][]Op{
	arithmetic, logic, activation, softmax, matmul, conv, pool, reduce, search, cumulative, norm,
	rnn, bitwise, resize, einsum,
	fused, fusedBytes, fusedPixels, qlinear, loss, attention, fourierOps, windowOps,
	linearAttention, flexAttention, deformOps, roiOps,
	linearAlgebra, foldOps, trainingOps, batchNorm, dropoutOps, imageOps, gridOps,
	constantOps, shapeOps, castOps, transposeOps, concatOps, sliceOps, repeatOps, padOps, gatherOps,
	scatterOps, selectOps, layoutOps, oneHotOps,
	sequenceOps, sequenceMapOps, optionalOps,
	controlOps, scanOps, detectOps, quantizeOps, randomOps, sampleOps, textOps, tfidfOps,
	mlTrees, mlLinear, mlSVM, mlFeatures, mlLabel, mlMaps,
}

var (
	indexing sync.Once
	index    map[key]*Op
)

// table indexes the rows on first use.
func table() map[key]*Op {
	indexing.Do(func() {
		index = map[key]*Op{}
		for _, f := range families() {
			for i := range f {
				index[key{f[i].Domain, f[i].Name}] = &f[i]
			}
		}
	})
	return index
}

// All returns every row, sorted by domain and name.
func All() []*Op {
	var all []*Op
	for _, o := range table() {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *Op) int {
		if c := strings.Compare(a.Domain, b.Domain); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// suggest names the row with the same letters in another case, the usual slip in hand-written
// models, or the operator set that is newer than those that weir knows.
func suggest(domain, name string, version int) string {
	for k := range table() {
		if k.domain == domain && strings.EqualFold(k.name, name) {
			return "; did you mean " + k.name + "?"
		}
	}
	if why := refused[name]; domain == "" && why != "" {
		return ": " + why
	}
	if newest := NewestOpset(domain); newest > 0 && version > newest {
		return fmt.Sprintf("; it may be of operator set %d, weir knows up to %d: export the model "+
			"for an older one", version, newest)
	}
	return "; export the model with ONNX's own operators, or add this one: docs/recipes/operator.md"
}
