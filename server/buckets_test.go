package server

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/queue"
	"github.com/weirgpu/weir/tensor"
)

// pooled has an output for each position, one for each pair of positions, and the mean of those
// positions of a row that its mask has.
const pooled = `graph "pooled" {
  opset "" 17
  input %ids: int64[N,seq]
  input %mask: int64[N,seq]
  const %table: float32[5,3] = {9, 9, 9, 1, 2, 3, 4, 5, 6, -1, 0, 1, 2, 2, 2}
  const %two: int64[1] = {2}
  const %one: int64[1] = {1}
  %e: float32[N,seq,3] = Gather@13 (%table, %ids)
  %m: float32[N,seq] = Cast@13 (%mask) {to = 1}
  %mm: float32[N,seq,1] = Unsqueeze@13 (%m, %two)
  %each: float32[N,seq,3] = Mul@14 (%e, %mm)
  %t: float32[N,3,seq] = Transpose@13 (%each) {perm = [0, 2, 1]}
  %pairs: float32[N,seq,seq] = MatMul@13 (%each, %t)
  %sum: float32[N,3] = ReduceSum@13 (%each, %one) {keepdims = 0}
  %count: float32[N,1] = ReduceSum@13 (%m, %one)
  %mean: float32[N,3] = Div@14 (%sum, %count)
  output %each
  output %pairs
  output %mean
}`

// bucketed is what a configuration says of it.
const bucketed = `max_batch_size: 8
parameters { key: "bucket.lengths" value { string_value: "4, 8,16" } }
parameters { key: "bucket.mask" value { string_value: "mask" } }
parameters { key: "bucket.pad" value { string_value: "ids=2" } }`

// sentences asks for rows of random lengths at once, and holds every answer against that of the
// model alone, of which it computes no others. It returns the version.
func sentences(t *testing.T, s *Server, name string, longest int, masked bool) *version {
	t.Helper()
	s.background.Wait() // what is learned is known
	v := s.models[name].newest()
	m, err := v.source.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	var wait sync.WaitGroup
	defer wait.Wait()
	gate := make(chan struct{})
	defer close(gate)
	for range 150 {
		rows, length := 1+rng.IntN(3), 1+rng.IntN(longest)
		ids, mask := make([]int64, rows*length), make([]int64, rows*length)
		for i := range ids {
			ids[i], mask[i] = int64(rng.IntN(5)), int64(rng.IntN(3)/2)
			if !masked || i%length == 0 {
				mask[i] = 1
			}
		}
		in := weir.Inputs{"ids": tensor.From(ids, rows, length),
			"mask": tensor.From(mask, rows, length)}
		alone, err := m.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var want []*tensor.Tensor
		for _, o := range alone.Outputs() {
			want = append(want, o.Clone())
		}
		alone.Close()
		r := &oip.Request{Inputs: []oip.Input{{Name: "ids", Tensor: in["ids"]}}}
		if masked {
			r.Inputs = append(r.Inputs, oip.Input{Name: "mask", Tensor: in["mask"]})
		}
		wait.Go(func() {
			<-gate
			a, err := s.Infer(t.Context(), name, "", r)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			for i, o := range a.Outputs {
				if !alike(o.Tensor, want[i]) {
					t.Errorf("%d rows of %d: output %s is %v, want %v", rows, length, o.Name,
						o.Tensor, want[i])
				}
			}
		})
	}
	return v
}

// TestPadded: requests of different lengths share batches, and each has the answer that it has
// alone, with a mask of its own and with that which is made, beyond the sizes too.
func TestPadded(t *testing.T) {
	s := begin(t, Options{Batch: 8}, configured(t, written("pooled", pooled), bucketed))
	before := int64(0)
	for _, masked := range []bool{true, false} {
		v := sentences(t, s, "pooled", 20, masked)
		if b := v.batches.Load(); b.pads == nil || b.most != 8 ||
			b.why != "up to 8 rows, padded to 4 8 16" {
			t.Fatalf("batches of %d: %s", b.most, b.why)
		}
		n := int64(v.counts.Statistics().Executions)
		if n-before >= 120 {
			t.Errorf("150 requests in %d executions", n-before)
		}
		before = n
	}
}

// TestPaddedNot: a model whose answers depend on what is behind a row's values, or have a size of
// their own, is not padded, and says so; its answers are right.
func TestPaddedNot(t *testing.T) {
	mean := strings.Replace(pooled, "ReduceSum@13 (%each", "ReduceMean@18 (%each", 1)
	more := strings.Replace(pooled, "output %pairs", `const %ends: int64[4] = {0, 0, 0, 1}
	  %longer: float32[N,M] = Pad@18 (%m, %ends)
	  output %longer`, 1)
	for name, c := range map[string]struct{ text, says string }{
		"mean": {mean, "output mean of a row of length 1 alone is not that when it is padded to 4"},
		"more": {more, "dimension 1 of output longer is not as long as the inputs"},
	} {
		s := begin(t, Options{Batch: 4}, configured(t, written(name, c.text), bucketed))
		v := sentences(t, s, name, 6, true)
		if b := v.batches.Load(); b.pads != nil || !strings.Contains(b.why, c.says) {
			t.Errorf("%s: %s", name, b.why)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPaddedAlone: a batch that fails leaves those beside the one that is why their answers, cut
// back; a row without anything in its mask is computed as it is, and so is one that is too long.
func TestPaddedAlone(t *testing.T) {
	s := begin(t, Options{Batch: 8}, configured(t, written("pooled", pooled), bucketed))
	s.background.Wait()
	v := s.models["pooled"].newest()
	request := func(length int, first, mask int64) *task {
		ids, is := make([]int64, length), make([]int64, length)
		ids[0], is[0] = first, mask
		x := &task{in: weir.Inputs{"ids": tensor.From(ids, 1, length),
			"mask": tensor.From(is, 1, length)}}
		v.place(x, &queue.Request{})
		return x
	}
	batch := []*task{request(3, 1, 1), request(2, 7, 1), request(4, 2, 1)}
	if err := v.run(t.Context(), batch, func() {}); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]int{{1, 3, 3}, nil, {1, 4, 3}} {
		x := batch[i]
		switch {
		case want == nil && !errors.Is(x.err, weir.ErrInput):
			t.Errorf("index 7: %v", x.err)
		case want != nil && (x.err != nil || !slices.Equal(x.out[0].Shape, want)):
			t.Errorf("request %d: %v, %v", i, x.out, x.err)
		}
		x.free()
	}
	for x, size := range map[*task]int{request(3, 1, 1): 4, request(3, 1, 0): 0,
		request(9, 1, 1): 16, request(17, 1, 1): 0} {
		if x.size != size {
			t.Errorf("%v is padded to %d, want %d", x.in["mask"], x.size, size)
		}
	}
}

// TestPaddingRefused: what cannot be padded keeps the model from being served, with the reason; the
// properties of a model say it as well.
func TestPaddingRefused(t *testing.T) {
	s := begin(t, Options{})
	parameter := func(key, value string) string {
		return `parameters { key: "bucket.` + key + `" value { string_value: "` + value + `" } } `
	}
	for text, want := range map[string]string{
		parameter("lengths", "8,4"):                                    "that rise",
		parameter("lengths", "seq"):                                    "that rise",
		parameter("lengths", "1,2,3,4,5,6,7,8,9"):                      "give 8 at most",
		parameter("lengths", "words=4"):                                "no input has such",
		parameter("mask", "mask"):                                      "that rise",
		parameter("lengths", "4") + parameter("mask", "no"):            "that is padded",
		parameter("lengths", "4") + parameter("pad", "ids"):            "give INPUT=VALUE",
		parameter("lengths", "4") + parameter("pad", "ids=x"):          "invalid syntax",
		parameter("lengths", "4") + parameter("most", "9"):             "there is bucket.lengths",
		parameter("lengths", "seq=4,8") + parameter("pad", "mask=1,x"): "give INPUT=VALUE",
	} {
		err := s.LoadAll(t.Context(), []Source{configured(t, written("pooled", pooled), text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	v := &version{types: []oip.TensorFields{{Name: "x", Shape: []int64{-1, -1, -1}}},
		inputs: map[string]weir.ValueInfo{"x": {Type: weir.Type{DType: tensor.String,
			Shape: []weir.Dim{{Size: -1, Name: "N"}, {Size: -1, Name: "a"},
				{Size: -1, Name: "b"}}}}}}
	of := map[string]string{propertyLengths: "b=3", propertyPad: "x=-"}
	if err := v.padded(of); err != nil || v.padding.axes["x"] != 2 ||
		v.padding.with["x"].Strings[0] != "-" {
		t.Errorf("by properties: %+v, %v", v.padding, err)
	}
	of[propertyLengths] = "3"
	if err := v.padded(of); err == nil || !strings.Contains(err.Error(), "has it twice") {
		t.Errorf("two dimensions: %v", err)
	}
}

// FuzzPadded: what is padded and cut back is what it was, and what is behind it the value.
func FuzzPadded(f *testing.F) {
	f.Add(uint8(2), uint8(3), uint8(2), uint8(1), uint8(4))
	f.Add(uint8(1), uint8(1), uint8(1), uint8(2), uint8(9))
	f.Fuzz(func(t *testing.T, a, b, c, axis, more uint8) {
		shape := []int{1 + int(a%5), 1 + int(b%5), 1 + int(c%5)}
		at := 1 + int(axis%2)
		n, _ := tensor.Count(shape)
		x := &tensor.Tensor{DType: tensor.Int16, Shape: shape}
		for i := range n {
			x.Data = append(x.Data, byte(i), 1)
		}
		size := shape[at] + int(more)
		wide := &tensor.Tensor{DType: tensor.Int16, Shape: slices.Clone(shape)}
		wide.Shape[at] = size
		wide.Data = padTo(nil, x.Data, []byte{255, 7}, shape, at, size)
		if behind := bytes.Count(wide.Data, []byte{255, 7}); behind != n/shape[at]*int(more) {
			t.Fatalf("%v to %v: %d are behind", shape, wide.Shape, behind)
		}
		if back := shorter(wide, []int{at}, shape[at]); !tensor.Equal(back, x) {
			t.Fatalf("%v to %v: %v, want %v", shape, wide.Shape, back, x)
		}
	})
}

// TestPaddedEmpty: an output without elements is cut back like others.
func TestPaddedEmpty(t *testing.T) {
	s := begin(t, Options{Batch: 8}, configured(t, written("pooled", strings.Replace(
		pooled, `  output %each`, `  const %zero: int64[1] = {0}
  const %axis: int64[1] = {1}
  %none: float32[N,0,seq] = Slice@13 (%t, %zero, %zero, %axis)
  output %none
  output %each`, 1)), bucketed))
	sentences(t, s, "pooled", 20, true)
}

// TestMaskOfUnlikeLengths: no mask is made where it is not known whose it would be.
func TestMaskOfUnlikeLengths(t *testing.T) {
	s := begin(t, Options{Batch: 8}, configured(t, written("two", `graph "two" {
	  opset "" 17
	  input %a: int64[N,p]
	  input %b: int64[N,q]
	  input %mask: int64[N,r]
	  const %one: int64[1] = {1}
	  %sum: int64[N] = ReduceSum@13 (%mask, %one) {keepdims = 0}
	  output %sum
	}`), strings.Replace(bucketed, "ids=2", "a=2", 1)))
	s.background.Wait()
	ints := func(name string, n int) oip.Input {
		return oip.Input{Name: name, Tensor: tensor.From(make([]int64, n), 1, n)}
	}
	for range 20 {
		a, err := s.Infer(t.Context(), "two", "", &oip.Request{Inputs: []oip.Input{ints("a", 3),
			ints("b", 5)}})
		if !errors.Is(err, oip.ErrRequest) && oip.KindOf(err) != oip.Invalid {
			t.Fatalf("it answers %v, %v", a, err)
		}
	}
	a, err := s.Infer(t.Context(), "two", "", &oip.Request{Inputs: []oip.Input{ints("a", 3),
		ints("b", 3)}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got := tensor.As[int64](a.Outputs[0].Tensor); got[0] != 3 {
		t.Errorf("the mask that is made has %d", got)
	}
}

// TestPaddedToFewer: outputs that are as long as a mask is full are no parts of longer ones: those
// requests are computed as they came.
func TestPaddedToFewer(t *testing.T) {
	full := strings.NewReplacer("\n  output %each", `
  %counts: float32[N] = ReduceSum@13 (%m, %one) {keepdims = 0}
  const %zero: int64[1] = {0}
  %most: float32[1] = ReduceMax@13 (%counts) {keepdims = 1}
  %n: int64[1] = Cast@13 (%most) {to = 7}
  %first: float32[N,k,3] = Slice@13 (%each, %zero, %n, %one)
  output %first
  output %each`).Replace(pooled)
	s := begin(t, Options{Batch: 8}, configured(t, written("pooled", full), bucketed))
	sentences(t, s, "pooled", 20, true)
}
