package pass

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

func TestHeldBytes(t *testing.T) {
	a, b := tensor.From([]float32{1, 2, 3}, 3), tensor.From([]int64{4}, 1)
	if got := heldBytes([]*tensor.Tensor{a, nil, b, a}); got != 20 {
		t.Errorf("got %d bytes, want 12 and 8", got)
	}
}

func TestProductSizes(t *testing.T) {
	ints := func(name string, v ...int64) op.Attr { return op.IntsAttr(name, v...) }
	group := func(v int64) op.Attr { return op.IntAttr("group", v) }
	for _, tc := range []struct {
		name, kind string
		attrs      op.Attrs
		a, b       []int
		constant   bool
		want       productSize
	}{
		{"matrices", "MatMul", nil, []int{5, 6}, []int{6, 7}, true,
			productSize{1, 5, 6, 7, true, false, false, 0}},
		{"a vector", "MatMul", nil, []int{5, 6}, []int{6, 7}, false,
			productSize{1, 5, 6, 7, false, false, false, 0}},
		{"a batch of both", "MatMul", nil, []int{2, 3, 5, 6}, []int{2, 3, 6, 7}, false,
			productSize{6, 5, 6, 7, false, false, false, 0}},
		{"a batch of rows", "MatMul", nil, []int{2, 3, 5, 6}, []int{6, 7}, true,
			productSize{1, 30, 6, 7, true, false, false, 0}},
		{"Gemm", "Gemm", nil, []int{5, 6}, []int{6, 7}, true,
			productSize{1, 5, 6, 7, true, false, false, 0}},
		{"Gemm, transposed", "Gemm", op.Attrs{op.IntAttr("transA", 1), op.IntAttr("transB", 1)},
			[]int{6, 5}, []int{7, 6}, true, productSize{1, 5, 6, 7, true, false, false, 0}},
		{"convolution", "Conv", op.Attrs{ints("strides", 1, 2)}, []int{2, 3, 10, 11},
			[]int{4, 3, 2, 5}, true, productSize{2, 36, 30, 4, true, false, false, 0}},
		{"convolution of groups", "Conv", op.Attrs{group(3)}, []int{2, 6, 4, 4},
			[]int{9, 2, 3, 3}, true, productSize{6, 4, 18, 3, true, false, false, 0}},
		{"depthwise", "Conv", op.Attrs{group(6)}, []int{2, 6, 4, 4}, []int{12, 1, 3, 3}, true,
			productSize{12, 4, 9, 2, true, true, false, 0}},
		{"in tiles", "Conv", nil, []int{1, 3, 6, 5}, []int{4, 3, 3, 3}, true,
			productSize{1, 12, 27, 4, true, false, false, 12}},
		{"dilated", "Conv", op.Attrs{ints("dilations", 1, 2)}, []int{1, 3, 6, 5},
			[]int{4, 3, 3, 3}, true, productSize{1, 4, 27, 4, true, false, false, 0}},
		{"computed weights", "Conv", nil, []int{1, 3, 6, 5}, []int{4, 3, 3, 3}, false,
			productSize{1, 12, 27, 4, false, false, true, 0}},
		{"one axis", "Conv", nil, []int{1, 3, 6}, []int{4, 3, 3}, true,
			productSize{1, 4, 9, 4, true, false, false, 0}},
	} {
		n := productNode(t, tc.kind, tc.attrs, tc.a, tc.b, tc.constant)
		if got, ok := productOf(n); !ok || got != tc.want {
			t.Errorf("%s: got %+v, %v, want %+v", tc.name, got, ok, tc.want)
		}
	}
	for _, tc := range []struct{ a, b []int }{{[]int{5, 6}, []int{6}}, {[]int{6}, []int{6, 7}},
		{[]int{5, 0}, []int{0, 7}}, {[]int{5, 6}, []int{6, 0}}} {
		if got, ok := productOf(productNode(t, "MatMul", nil, tc.a, tc.b, true)); ok {
			t.Errorf("%v times %v: got %+v, want none", tc.a, tc.b, got)
		}
	}
}

func TestAttentionSizes(t *testing.T) {
	for _, tc := range []struct {
		q, k  []int
		first []int64
		want  productSize
	}{
		{[]int{5, 8}, []int{7, 8}, nil, productSize{1, 5, 8, 7, false, false, false, 0}},
		{[]int{3, 5, 8}, []int{3, 7, 8}, nil, productSize{3, 5, 8, 7, false, false, false, 0}},
		{[]int{2, 3, 5, 8}, []int{2, 3, 7, 8}, nil,
			productSize{6, 5, 8, 7, false, false, false, 0}},
		{[]int{2, 5, 3, 8}, []int{2, 3, 7, 8}, []int64{1, 0, 0, 0},
			productSize{6, 5, 8, 7, false, false, false, 0}},
		{[]int{2, 3, 5, 8}, []int{2, 7, 3, 8}, []int64{0, 1, 1, 1},
			productSize{6, 5, 8, 7, false, false, false, 0}},
		{[]int{2, 3, 0, 8}, []int{2, 3, 7, 8}, nil, productSize{}},
		{[]int{2, 3, 5, 0}, []int{2, 3, 7, 0}, nil, productSize{}},
		{[]int{8}, []int{8}, nil, productSize{}},
		{[]int{5, 8}, []int{1, 7, 8}, nil, productSize{}},
	} {
		n := &graph.Node{}
		if tc.first != nil {
			n.Attrs = op.Attrs{op.IntsAttr("rows_first", tc.first...)}
		}
		got, ok := attentionSize(n, tc.q, tc.k)
		if ok != (tc.want != productSize{}) || ok && got != tc.want {
			t.Errorf("%v by %v, rows first %v: got %+v, %v, want %+v", tc.q, tc.k, tc.first, got,
				ok, tc.want)
		}
	}
}

// byteConv is QLinearConv of two groups of weights on a grid, or what change makes of it.
func byteConv(change func(n *graph.Node)) *graph.Node {
	constant := func(x *tensor.Tensor) *graph.Value { return graph.NewConst("c", x) }
	byte1 := func(v byte) *graph.Value { return constant(tensor.From([]uint8{v}, 1)) }
	scale := constant(tensor.From([]float32{0.5}, 1))
	in := []*graph.Value{{Name: "x", Type: op.Concrete(tensor.Uint8, 1, 4, 8, 8)}, scale, byte1(1),
		constant(tensor.From(make([]uint8, 8*4*3*3), 8, 4, 3, 3)), scale, byte1(3), scale, byte1(4)}
	n := graph.NewNode("n", "QLinearConv", 13, nil, in, "y")
	n.Out[0].Type = op.Concrete(tensor.Uint8, 1, 8, 6, 6)
	change(n)
	return n
}

func TestNHWCConv(t *testing.T) {
	attrs := func(as ...op.Attr) func(n *graph.Node) {
		return func(n *graph.Node) { n.Attrs = as }
	}
	in := func(i int, x *tensor.Tensor) func(n *graph.Node) {
		return func(n *graph.Node) { n.In[i] = graph.NewConst("c", x) }
	}
	group := func(n int64, shape ...int) func(n *graph.Node) {
		count, _ := tensor.Count(shape)
		w := tensor.From(make([]uint8, count), shape...)
		return func(m *graph.Node) {
			m.Attrs = op.Attrs{op.IntAttr("group", n)}
			m.In[3] = graph.NewConst("w", w)
		}
	}
	image := func(shape ...int) func(n *graph.Node) {
		return func(n *graph.Node) {
			n.In[0] = &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, shape...)}
		}
	}
	floats := func(n int) *tensor.Tensor { return tensor.From(make([]float32, n), n) }
	for name, tc := range map[string]struct {
		change func(n *graph.Node)
		want   bool
	}{
		"plain":               {func(*graph.Node) {}, true},
		"another operator":    {func(n *graph.Node) { n.Type = "ConvInteger" }, false},
		"another domain":      {func(n *graph.Node) { n.Domain = "com.microsoft" }, false},
		"fused":               {func(n *graph.Node) { n.Domain = op.FusedDomain }, true},
		"pads":                {attrs(op.IntsAttr("pads", 0, 1, 0, 1)), true},
		"pads below 0":        {attrs(op.IntsAttr("pads", 0, -1, 0, 1)), false},
		"dilations of one":    {attrs(op.IntsAttr("dilations", 1, 1)), true},
		"dilations":           {attrs(op.IntsAttr("dilations", 1, 2)), false},
		"two groups":          {group(2, 8, 2, 3, 3), false},
		"a group each":        {group(8, 8, 1, 3, 3), true},
		"half a group each":   {group(4, 8, 1, 3, 3), false},
		"scales by channel":   {in(4, floats(8)), true},
		"too many scales":     {in(4, floats(4)), false},
		"input's by channel":  {in(1, floats(8)), false},
		"scales in rows":      {in(4, tensor.From(make([]float32, 8), 8, 1)), false},
		"the least zero":      {in(5, tensor.From([]uint8{0}, 1)), false},
		"the least of int8":   {in(5, tensor.From([]int8{-128}, 1)), false},
		"0 of int8":           {in(5, tensor.From([]int8{0}, 1)), true},
		"zeros that vary":     {in(5, tensor.From([]uint8{1, 1, 1, 1, 2, 1, 1, 1}, 8)), false},
		"equal zeros":         {in(5, tensor.From([]uint8{1, 1, 1, 1, 1, 1, 1, 1}, 8)), true},
		"no zeros":            {in(5, tensor.From([]uint8{}, 0)), false},
		"seven inputs":        {func(n *graph.Node) { n.In = n.In[:7] }, false},
		"computed weights":    {func(n *graph.Node) { n.In[3] = n.In[0] }, false},
		"computed zero":       {func(n *graph.Node) { n.In[5] = n.In[0] }, false},
		"a computed scale":    {func(n *graph.Node) { n.In[6] = n.In[0] }, false},
		"one pixel":           {image(1, 4, 1, 1), false},
		"two pixels":          {image(1, 4, 1, 2), true},
		"images of one axis":  {image(1, 4, 8), false},
		"weights of one axis": {group(1, 8, 4, 3), false},
		"no weights":          {group(1, 0, 4, 3, 3), false},
		"a bias": {func(n *graph.Node) {
			n.In = append(n.In, graph.NewConst("b", tensor.From(make([]int32, 8), 8)))
		}, true},
	} {
		if got := nhwcConv(byteConv(tc.change)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// TestSumsPatches: only patches of several pixels around another byte than the centre need sums.
func TestSumsPatches(t *testing.T) {
	zero := func(x *tensor.Tensor) func(n *graph.Node) {
		return func(n *graph.Node) { n.In[5] = graph.NewConst("z", x) }
	}
	weights := func(groups int64, shape ...int) func(n *graph.Node) {
		count, _ := tensor.Count(shape)
		return func(n *graph.Node) {
			n.Attrs = op.Attrs{op.IntAttr("group", groups)}
			n.In[3] = graph.NewConst("w", tensor.From(make([]uint8, count), shape...))
		}
	}
	for name, tc := range map[string]struct {
		change func(n *graph.Node)
		want   bool
	}{
		"3 x 3 around 3":     {func(*graph.Node) {}, true},
		"around 128":         {zero(tensor.From([]uint8{128}, 1)), false},
		"int8 around 0":      {zero(tensor.From([]int8{0}, 1)), false},
		"int8 around 1":      {zero(tensor.From([]int8{1}, 1)), true},
		"1 x 1":              {weights(1, 8, 4, 1, 1), false},
		"1 x 2":              {weights(1, 8, 4, 1, 2), true},
		"a group a channel":  {weights(8, 8, 1, 3, 3), false},
		"around 128 of int8": {zero(tensor.From([]int8{-128}, 1)), true},
	} {
		if got := sumsPatches(byteConv(tc.change)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

// TestNear holds how far from an NHWC convolution a value may be.
func TestNear(t *testing.T) {
	table := graph.NewConst("t", tensor.From(make([]uint8, 256), 256))
	other := &graph.Value{Name: "o", Type: op.Concrete(tensor.Uint8, 1, 8, 6, 6)}
	next := map[string]func(v *graph.Value) *graph.Node{
		"Table": func(v *graph.Value) *graph.Node {
			return graph.NewNode("n", "Table", 1, nil, []*graph.Value{v, table}, "y")
		},
		"left": func(v *graph.Value) *graph.Node {
			return graph.NewNode("n", "QLinearAdd", 1, nil, []*graph.Value{v, nil, nil, other}, "y")
		},
		"right": func(v *graph.Value) *graph.Node {
			return graph.NewNode("n", "QLinearAdd", 1, nil, []*graph.Value{other, nil, nil, v}, "y")
		},
	}
	for name, make := range next {
		for between := range 6 {
			g := &graph.Graph{Inputs: []*graph.Value{other}}
			n := byteConv(func(*graph.Node) {})
			g.Nodes = append(g.Nodes, n)
			for range between {
				n = make(n.Out[0])
				n.Domain, n.Out[0].Type = op.FusedDomain, other.Type
				g.Nodes = append(g.Nodes, n)
			}
			room := 0
			s := newScope(context.Background(), g, 17, &room, map[string]bool{})
			if got := s.nearUp(n.Out[0], maxNear); got != (between < maxNear) {
				t.Errorf("%s: %d between: up %v", name, between, got)
			}
			down := make(other)
			down.Domain, down.Out[0].Type = op.FusedDomain, other.Type
			g.Nodes = []*graph.Node{down}
			v := down
			for range between {
				v = make(v.Out[0])
				v.Domain, v.Out[0].Type = op.FusedDomain, other.Type
				g.Nodes = append(g.Nodes, v)
			}
			last := byteConv(func(n *graph.Node) { n.In[0] = v.Out[0] })
			g.Nodes = append(g.Nodes, last)
			s = newScope(context.Background(), g, 17, &room, map[string]bool{})
			if got := s.nearDown(down.Out[0], maxNear); got != (between < maxNear) {
				t.Errorf("%s: %d between: down %v", name, between, got)
			}
		}
	}
}

func TestBytewise(t *testing.T) {
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Uint8, 2, 3)}
	for _, tc := range []struct {
		domain, kind string
		scale        *graph.Value
		want         bool
	}{
		{op.FusedDomain, "Table", x, true},
		{"", "Table", x, false},
		{op.FusedDomain, "Rescale", graph.NewConst("s", tensor.From([]float32{2}, 1)), true},
		{op.FusedDomain, "Rescale", graph.NewConst("s", tensor.From([]float32{2, 3}, 2)), false},
		{op.FusedDomain, "Rescale", x, false},
		{op.FusedDomain, "Conv", graph.NewConst("s", tensor.From([]float32{2}, 1)), false},
	} {
		n := graph.NewNode("n", tc.kind, 1, nil, []*graph.Value{x, tc.scale}, "y")
		n.Domain = tc.domain
		if got := bytewise(n); got != tc.want {
			t.Errorf("%s: got %v, want %v", fmt.Sprint(tc.domain, " ", tc.kind), got, tc.want)
		}
	}
	if bytewise(nil) {
		t.Error("no node is bytewise")
	}
}

// TestSameTensor compares small constants by their elements and large ones by where they are.
func TestSameTensor(t *testing.T) {
	for n, want := range map[int]bool{1: true, maxHashed: true, maxHashed + 1: false} {
		a := tensor.From(make([]uint8, n), n)
		if sameTensor(a, a.Clone()) != want || !sameTensor(a, a) {
			t.Errorf("%d bytes: equal to a copy %v, want %v", n, !want, want)
		}
		other := &tensor.Tensor{DType: tensor.Int8, Shape: a.Shape, Data: a.Data}
		if sameTensor(a, other) {
			t.Errorf("%d bytes are equal to those of another type", n)
		}
	}
}
