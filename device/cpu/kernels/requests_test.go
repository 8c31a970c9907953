package kernels

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestUnknownShapesAreLeft: a call some shape of which is not known has no kernel, whichever
// operand or result it is of.
func TestUnknownShapesAreLeft(t *testing.T) {
	for _, key := range rows() {
		for i := range uint64(4) {
			s := generator(key)(newSource(i, 11), key)
			_, r, ok := s.request()
			if !ok {
				continue
			}
			for _, list := range [][]op.Type{r.In, r.Out} {
				for at, was := range list {
					if was.DType == tensor.Undefined || len(was.Shape) == 0 {
						continue
					}
					list[at].Shape = slices.Clone(was.Shape)
					list[at].Shape[len(was.Shape)-1] = op.Unknown()
					if k, err := prepare(r); k != nil || err != nil {
						t.Errorf("%v with %v for %v: kernel %v, error %v", s, list[at], was, k, err)
					}
					list[at] = was
				}
			}
		}
	}
}

// call is a request for a call of static types that are taken as they are.
func call(typ string, version int, attrs op.Attrs, in, out []op.Type) *compute.Request {
	return &compute.Request{Call: &op.Call{Type: typ, Version: version, Attrs: attrs,
		NumIn: len(in), NumOut: len(out)}, In: in, Out: out}
}

// TestMovesTheyTake holds which permutations and blocks have a kernel.
func TestMovesTheyTake(t *testing.T) {
	f := func(shape ...int) []op.Type { return []op.Type{op.Concrete(tensor.Float32, shape...)} }
	ones := func(n int) []int { return slices.Repeat([]int{2}, n) }
	perm := func(n int) op.Attrs {
		v := make([]int64, n)
		for i := range v {
			v[i] = int64((i*3 + 1) % n)
		}
		return op.Attrs{op.IntsAttr("perm", v...)}
	}
	block := func(n int64) op.Attrs { return op.Attrs{op.IntAttr("blocksize", n)} }
	for _, tc := range []struct {
		name string
		r    *compute.Request
		want bool
	}{
		{"eight axes", call("Transpose", 13, perm(8), f(ones(8)...), f(ones(8)...)), true},
		{"blocks to space", call("DepthToSpace", 13, block(2), f(1, 8, 2, 3), f(1, 2, 4, 6)), true},
		{"no size of blocks", call("DepthToSpace", 13, nil, f(1, 8, 2, 3), f(1, 2, 4, 6)), false},
		{"blocks that do not fit", call("DepthToSpace", 13, block(3), f(1, 8, 2, 3), f(1, 1, 6, 9)),
			false},
		{"blocks of three axes", call("DepthToSpace", 13, block(2), f(8, 2, 3), f(2, 4, 6)), false},
		{"space to blocks", call("SpaceToDepth", 13, block(2), f(1, 2, 4, 6), f(1, 8, 2, 3)), true},
		{"space to no blocks", call("SpaceToDepth", 13, nil, f(1, 2, 4, 6), f(1, 8, 2, 3)), false},
		{"high blocks that do not fit", call("SpaceToDepth", 13, block(2), f(1, 2, 5, 6),
			f(1, 8, 2, 3)), false},
		{"wide blocks that do not fit", call("SpaceToDepth", 13, block(2), f(1, 2, 4, 7),
			f(1, 8, 2, 3)), false},
		{"three axes to blocks", call("SpaceToDepth", 13, block(2), f(2, 4, 6), f(8, 2, 3)), false},
	} {
		k, err := prepare(tc.r)
		if (k != nil) != tc.want || err != nil {
			t.Errorf("%s: kernel %v, error %v, want one: %v", tc.name, k, err, tc.want)
		}
	}
}

// TestTriangles: a constant mask that hides the keys after each query is computed as such, so that
// the hidden keys are not.
func TestTriangles(t *testing.T) {
	const n = 6
	hide := float32(math.Inf(-1))
	bias, keep := make([]float32, n*n), make([]bool, n*n)
	for i := range n {
		for j := range n {
			keep[i*n+j] = j <= i
			if j > i {
				bias[i*n+j] = hide
			}
		}
	}
	near := slices.Clone(bias)
	near[0] = 0.5
	x := op.Concrete(tensor.Float32, 1, 2, n, 4)
	for name, tc := range map[string]struct {
		at   int
		mask *tensor.Tensor
		want bool
	}{
		"added":          {op.FusedAttentionBias, tensor.From(bias, n, n), true},
		"truth":          {op.FusedAttentionKeep, tensor.From(keep, n, n), true},
		"another number": {op.FusedAttentionBias, tensor.From(near, n, n), false},
	} {
		in := []op.Type{x, x, x, {}, {}}
		in[tc.at] = op.TypeOf(tc.mask)
		r := call("Attention", 1, nil, in, []op.Type{x})
		r.Call.Domain = op.FusedDomain
		k, err := prepare(r)
		if err != nil || k == nil || !strings.HasPrefix(k.Name(), "attention") {
			t.Fatalf("%s: kernel %v, error %v", name, k, err)
		}
		a := k.(*attentionKernel)
		if got := a.params.Causal; got != tc.want || got == (a.bias >= 0 || a.keep >= 0) {
			t.Errorf("%s: causal %v, masks %d and %d", name, got, a.bias, a.keep)
		}
	}
}

// TestPlanarImages: the first convolution of a net reads images of few channels as they come.
func TestPlanarImages(t *testing.T) {
	if !conv.HasNHWC() {
		t.Skip("this machine's instructions have no such kernel")
	}
	one := func(x *tensor.Tensor) op.Type { return op.TypeOf(x) }
	scale := one(tensor.From([]float32{0.5}, 1))
	for c, want := range map[int]bool{1: true, 3: true, 4: true, 5: false} {
		in := make([]op.Type, 12)
		copy(in, []op.Type{op.Concrete(tensor.Uint8, 1, c, 8, 8), scale,
			one(tensor.From([]uint8{3}, 1)),
			one(tensor.From(make([]int8, 8*c*3*3), 8, c, 3, 3)), scale,
			one(tensor.From([]int8{0}, 1)), scale, one(tensor.From([]uint8{4}, 1))})
		r := call("NhwcQLinearConv", 1, op.Attrs{op.IntAttr("planar", 1)}, in,
			[]op.Type{op.Concrete(tensor.Uint8, 1, 6, 6, 8)})
		r.Call.Domain = op.FusedDomain
		if k, err := prepare(r); (k != nil) != want || err != nil {
			t.Errorf("%d channels: kernel %v, error %v, want one: %v", c, k != nil, err, want)
		}
	}
}

// TestHiddenNaN: what hides a key is added to its score, so that a NaN there shows (ONNX 23,
// Attention adds its mask).
func TestHiddenNaN(t *testing.T) {
	pools, r := testPools(t), newSource(1, 5)
	q, k, v := r.floats(1, 1, 3, 4), r.floats(1, 1, 3, 4), r.floats(1, 1, 3, 4)
	tensor.As[float32](k)[2*4] = float32(math.NaN())
	mask := tensor.From([]bool{true, true, false, true, true, false, true, true, false}, 3, 3)
	s := r.call(opKey{"", "Attention"}, nil, q, k, v, mask)
	s.constant, s.atol = make([]bool, 4), 1e-5
	if got := s.check(t, pools); got != served {
		t.Errorf("verdict %d", got)
	}
}

// TestPixelsTheyTake: one pixel of one channel has a kernel, and no pixel has none.
func TestPixelsTheyTake(t *testing.T) {
	if !conv.HasNHWC() {
		t.Skip("this machine's instructions have no such kernel")
	}
	scale := op.TypeOf(tensor.From([]float32{0.5}, 1))
	zero := op.TypeOf(tensor.From([]uint8{3}, 1))
	for batch, want := range map[int]bool{0: false, 1: true, 2: true} {
		in := make([]op.Type, 12)
		copy(in, []op.Type{op.Concrete(tensor.Uint8, batch, 1, 1, 1), scale, zero,
			op.TypeOf(tensor.From([]int8{7}, 1, 1, 1, 1)), scale,
			op.TypeOf(tensor.From([]int8{0}, 1)), scale, zero})
		r := call("NhwcQLinearConv", 1, nil, in,
			[]op.Type{op.Concrete(tensor.Uint8, batch, 1, 1, 1)})
		r.Call.Domain = op.FusedDomain
		if k, err := prepare(r); (k != nil) != want || err != nil {
			t.Errorf("a batch of %d: kernel %v, error %v, want one: %v", batch, k != nil, err, want)
		}
	}
}

// TestPadsOfAnAxis compares every pad of short axes with the reference, in every mode. There is a
// kernel unless pads take all elements away, or add more than there are to reflect or to repeat.
func TestPadsOfAnAxis(t *testing.T) {
	pools, r := testPools(t)[:1], newSource(1, 6)
	most := map[string]func(kept int) int{
		"constant": func(int) int { return 4 }, "edge": func(int) int { return 4 },
		"reflect": func(kept int) int { return kept - 1 },
		"wrap":    func(kept int) int { return kept },
	}
	for mode, most := range most {
		for i := range 4 * 9 * 9 {
			n, before, after := 1+i%4, i/4%9-4, i/36-4
			kept := n + min(0, before) + min(0, after)
			if kept < 0 { // which is an error
				continue
			}
			s := r.call(opKey{"", "Pad"}, op.Attrs{op.StringAttr("mode", mode)}, r.floats(2, n),
				i64(0, int64(before), 1, int64(after))).fix(1)
			s.call.Version, s.exact = 19, true
			want := refused
			if kept > 0 && max(before, after) <= most(kept) {
				want = served
			}
			if got := s.check(t, pools); got != want {
				t.Errorf("%s: %d, %d elements, %d: verdict %d, want %d", mode, before, n, after,
					got, want)
			}
		}
	}
}

// TestTransposesInChunks compares transposes of several matrices, each of several chunks, with the
// reference, for elements of one byte and of four.
func TestTransposesInChunks(t *testing.T) {
	pools, r := testPools(t), newSource(1, 8)
	perm := op.Attrs{op.IntsAttr("perm", 1, 0, 3, 2)}
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Float32} {
		s := r.call(opKey{"", "Transpose"}, perm, r.bits(d, 2, 3, 530, 67))
		s.exact = true
		_, req, ok := s.request()
		k, err := prepare(req)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		m, ok := k.(*matrixTranspose)
		if !ok || m.matrices != 6 || m.rows <= m.per || m.rows%m.per == 0 {
			t.Errorf("%v: %T %+v, want six matrices in uneven chunks", d, k, m)
		}
		if s.check(t, pools) != served {
			t.Errorf("%v: no kernel", d)
		}
	}
}
