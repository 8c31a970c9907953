package op

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

type key struct{ domain, name string }

// families are the tables of the operators of ONNX and of weir's own, one file each.
var families = [][]Op{
	arithmetic, logic, activation, softmax, matmul, conv, pool, reduce, search, cumulative, norm,
	rnn, bitwise, resize, einsum, fused, fusedBytes, fusedGrid, fusedGridConv, fusedChain,
	fusedNHWC, fusedPixels, qlinear, loss, attention, fourierOps, windowOps, linearAttention,
	flexAttention, deformOps, roiOps, linearAlgebra, foldOps, trainingOps, batchNorm,
	dropoutOps, imageOps, gridOps, constantOps, shapeOps, castOps,
	transposeOps, concatOps, sliceOps, repeatOps, padOps, gatherOps, scatterOps, selectOps,
	layoutOps, oneHotOps, sequenceOps, sequenceMapOps, optionalOps, controlOps, scanOps, detectOps,
	quantizeOps, randomOps, sampleOps, textOps, tfidfOps, boundaryOps,
	unscaleOps, trainedBatchNorm, poolGradientOps, clipGradientOps, convGradientOps,
	geluGradientOps, countedDropoutOps, ctcOps, descentOps,
	layerNormGradientOps, softmaxGradientOps, attentionGradientOps,
	cofactorOps,
}

// Extension is what a package adds to the table: the operators of a domain that is not ONNX's own.
type Extension struct {
	// Rows returns the rows. It is called once, when the table is first read, so that definitions
	// may refer to [Lookup].
	Rows func() []Op
	// AttrKind, if set, returns the kind of an attribute of a call in one of Domains, false when
	// any will do: for operators that onnx/defs, and so the list behind [Call] checks, does not
	// describe. Other attributes of these domains have the kind that ONNX gives their name.
	AttrKind func(call *Call, name string) (AttrKind, bool)
	Domain   string // of AttrKind
}

var (
	extensions []Extension
	indexed    atomic.Bool
)

// Register adds operators to the table. A package calls it from an init function; package graph
// imports all those of weir, so that whoever has a graph has the rows. A call after the table was
// first read, or a second row for an operator, is a mistake in the program and panics.
func Register(e Extension) {
	if indexed.Load() {
		panic("op: Register after the table was read; call it from an init function")
	}
	extensions = append(extensions, e)
}

// table indexes the rows on first use.
var table = sync.OnceValue(func() map[key]*Op {
	indexed.Store(true)
	index := map[key]*Op{}
	add := func(rows []Op) {
		for i := range rows {
			k := key{rows[i].Domain, rows[i].Name}
			if index[k] != nil {
				panic(fmt.Sprintf("op: two rows for operator %s of domain %q", k.name, k.domain))
			}
			index[k] = &rows[i]
		}
	}
	for _, f := range families {
		add(f)
	}
	for _, e := range extensions {
		add(e.Rows())
	}
	return index
})

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

// reason names the row with the same letters in another case, the usual slip in hand-written
// models, or says why weir does not have an operator, or that its operator set is newer than those
// that weir knows.
func reason(domain, name string, version int) string {
	for k := range table() {
		if k.domain == domain && strings.EqualFold(k.name, name) {
			return "did you mean " + k.name + "?"
		}
	}
	if why := refused[name]; domain == "" && why != "" {
		return why
	}
	if newest := NewestOpset(domain); newest > 0 && version > newest {
		return fmt.Sprintf("it may be of operator set %d, weir knows up to %d: export the model "+
			"for an older one", version, newest)
	}
	return ""
}
