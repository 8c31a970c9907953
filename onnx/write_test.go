package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// same tells the first difference between two graphs; nil when there is none. Versions of operators
// may differ where the operator did not change in between.
func same(a, b *graph.Graph) error {
	if a.Name != b.Name || a.Captures != b.Captures || !maps.Equal(a.Meta, b.Meta) {
		return fmt.Errorf("name, captures or metadata: %q %d %v, %q %d %v", a.Name, a.Captures,
			a.Meta, b.Name, b.Captures, b.Meta)
	}
	if err := errors.Join(sameValues(a.Inputs, b.Inputs),
		sameValues(a.Outputs, b.Outputs)); err != nil {
		return fmt.Errorf("graph %q: %w", a.Name, err)
	}
	if len(a.Nodes) != len(b.Nodes) {
		return fmt.Errorf("graph %q: %d nodes, %d nodes", a.Name, len(a.Nodes), len(b.Nodes))
	}
	for i := range a.Nodes {
		if err := sameNode(a.Nodes[i], b.Nodes[i]); err != nil {
			return fmt.Errorf("graph %q: %v: %w", a.Name, a.Nodes[i], err)
		}
	}
	return nil
}

func sameValues(a, b []*graph.Value) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d values, %d values", len(a), len(b))
	}
	for i, v := range a {
		w := b[i]
		switch {
		case v == nil && w == nil:
		case v == nil || w == nil || v.Name != w.Name || v.Index != w.Index ||
			(v.Producer == nil) != (w.Producer == nil):
			return fmt.Errorf("value %d: %v, %v", i, v, w)
		case v.IsConst() != w.IsConst() || v.IsConst() && !tensor.Equal(v.Const(), w.Const()):
			return fmt.Errorf("value %q: constants differ", v.Name)
		case v.Type.DType != w.Type.DType || v.Type.Ranked != w.Type.Ranked ||
			len(v.Type.Shape) != len(w.Type.Shape):
			return fmt.Errorf("value %q: %v, %v", v.Name, v.Type, w.Type)
		}
	}
	return nil
}

func sameNode(a, b *graph.Node) error {
	if a.Name != b.Name || a.Domain != b.Domain || a.Type != b.Type || a.Captures != b.Captures ||
		len(a.Attrs) != len(b.Attrs) {
		return fmt.Errorf("became %v, %d captures, %d attributes", b, b.Captures, len(b.Attrs))
	}
	if !fits(a, b.Version) {
		return fmt.Errorf("version %d became %d", a.Version, b.Version)
	}
	if err := errors.Join(sameValues(a.In, b.In), sameValues(a.Out, b.Out)); err != nil {
		return err
	}
	for i, x := range a.Attrs {
		y := b.Attrs[i]
		ok := x.Name == y.Name && x.Kind == y.Kind && slices.Equal(x.Ints, y.Ints) &&
			slices.Equal(x.Strings, y.Strings) &&
			bytes.Equal(tensor.Bytes(x.Floats), tensor.Bytes(y.Floats)) &&
			(x.Tensor == nil) == (y.Tensor == nil) &&
			(x.Tensor == nil || tensor.Equal(x.Tensor, y.Tensor))
		if !ok {
			return fmt.Errorf("attribute %q differs", x.Name)
		}
		if g, isBody := x.Body.(*graph.Graph); isBody {
			if err := same(g, y.Body.(*graph.Graph)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewritten writes a graph and reads it again.
func rewritten(g *graph.Graph, o Options) (*graph.Graph, error) {
	var b bytes.Buffer
	if err := Write(&b, g, WriteOptions{}); err != nil {
		return nil, err
	}
	m, err := Decode(b.Bytes(), "", o)
	if err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	return m.Graph, nil
}

// testFiles lists the models of the ONNX project's test data, none when that is switched off.
func testFiles(t testing.TB) []string {
	t.Helper()
	dir, err := archive.BackendTests()
	if errors.Is(err, archive.ErrOff) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".onnx") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRoundTripOfTestData writes and reads again every model of ONNX's test data that weir can
// hold.
func TestRoundTripOfTestData(t *testing.T) {
	files := testFiles(t)
	if len(files) == 0 {
		t.Skip(archive.ErrOff)
	}
	held := 0
	for _, path := range files {
		o := Options{}
		m, err := Open(path, o)
		if errors.Is(err, op.ErrUnsupported) {
			o.SkipCheck = true
			m, err = Open(path, o)
		}
		if errors.Is(err, op.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		held++
		if g, err := rewritten(m.Graph, o); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if err := same(m.Graph, g); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		m.Close()
	}
	if held < 1000 {
		t.Errorf("only %d models could be read", held)
	}
}

// nested is a model with everything that bodies make hard: captures through two levels, an outer
// constant in both branches, the same names in both, outputs that are captures, constants and the
// same value twice.
func nested() []byte {
	return modelOf(graphName("main"), in("x"), out("y"), out("z"), out("y"),
		initializer(vector("k", 10, 20)...), initializer(truth("yes", true)...),
		node("If", "yes->y,z",
			bodyAttr("then_branch", graphName("then"), out("s"), out("k"),
				node("If", "yes->q", bodyAttr("then_branch", graphName("tt"), out("x")),
					bodyAttr("else_branch", graphName("te"), out("k"))),
				node("Add", "q,k->s")),
			bodyAttr("else_branch", graphName("else"), initializer(vector("own", 1, 2)...),
				out("s"), out("own"), node("Add", "x,k->s"))))
}

func TestRoundTripOfBodies(t *testing.T) {
	g := mustDecode(t, nested())
	once, err := rewritten(g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := rewritten(once, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := same(once, twice); err != nil {
		t.Errorf("what was written changes when written again: %v", err)
	}
	for _, g := range []*graph.Graph{g, once, twice} {
		if got := eval(t, g, []float32{1, 2}); !slices.Equal(got, []float32{11, 22}) {
			t.Errorf("y = %v, want [11 22]", got)
		}
	}
	if n := once.Constants(); len(n) != 1 {
		t.Errorf("constants of the main graph %v: want yes only, as k is used in bodies only", n)
	}
}

// TestSharedConstantsAreWrittenOnce checks that copies of a constant in bodies do not multiply the
// file.
func TestSharedConstantsAreWrittenOnce(t *testing.T) {
	big := make([]float32, 50_000)
	branch := func(name string) part {
		return bodyAttr(name, graphName(name), out("r"), node("Identity", "w->r"))
	}
	b := modelOf(out("y"), initializer(vector("w", big...)...), initializer(truth("c", true)...),
		node("If", "c->y", branch("then_branch"), branch("else_branch")))
	var w bytes.Buffer
	if err := Write(&w, mustDecode(t, b), WriteOptions{Types: true}); err != nil {
		t.Fatal(err)
	}
	if w.Len() > len(b)+1000 {
		t.Errorf("%d bytes became %d", len(b), w.Len())
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	g := mustDecode(t, modelOf(in("x"), out("y"),
		initializer(vector("w", make([]float32, 3000)...)...),
		initializer(vector("v", make([]float32, 500)...)...),
		initializer(vector("small", 1, 2)...), node("Add", "x,small->h"),
		node("Concat", "h,w,v->y", intAttr("axis", 0))))
	for i, v := range g.Nodes[1].In[1:] {
		for j := range tensor.As[float32](v.Const()) {
			tensor.As[float32](v.Const())[j] = float32(i*10_000 + j)
		}
	}
	for _, inline := range []int64{0, 4000} {
		if err := WriteFile(path, g, WriteOptions{MaxInline: inline}); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := same(g, m.Graph); err != nil {
			t.Errorf("inline limit %d: %v", inline, err)
		}
		// Writing over a model in use must not disturb it.
		if err := errors.Join(WriteFile(path, m.Graph, WriteOptions{MaxInline: inline}),
			same(g, m.Graph), m.Close()); err != nil {
			t.Errorf("inline limit %d: writing in place: %v", inline, err)
		}
	}
	info, err := os.Stat(path + ".data")
	if err != nil || info.Size() < 14_000 {
		t.Errorf("external data: %v, %v", info, err)
	}
	files, _ := os.ReadDir(dir)
	if len(files) != 2 {
		t.Errorf("files left over: %v", files)
	}
	if err := WriteFile(filepath.Join(dir, "none", "m.onnx"), g,
		WriteOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder that does not exist: %v", err)
	}
}

// ONNX Runtime refuses graphs with two nodes of one name, and models hold such.
func TestWrittenNodeNamesDiffer(t *testing.T) {
	g := mustDecode(t, modelOf(in("x"), out("d"), node("Abs", "x->a"), node("Neg", "a->b"),
		node("Abs", "b->c"), node("Neg", "c->d")))
	for i, name := range []string{"n", "n", "n_1", ""} {
		g.Nodes[i].Name = name
	}
	var b bytes.Buffer
	if err := Write(&b, g, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, n := range mustDecode(t, b.Bytes()).Nodes {
		names[n.Name] = true
	}
	if len(names) != len(g.Nodes) || !names["n"] || !names["n_1"] {
		t.Errorf("nodes are named %v", names)
	}
}

// A device or a pipe at the path is written to: replacing it would take /dev/null from the machine.
func TestWriteFileKeepsWhatIsNoFile(t *testing.T) {
	g := mustDecode(t, modelOf(in("x"), out("y"), node("Abs", "x->y")))
	dir := t.TempDir()
	null := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, null); err != nil {
		t.Skip(err)
	}
	if err := WriteFile(null, g, WriteOptions{}); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(null); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the device was replaced: %v, %v", info, err)
	}
	if err := WriteFile(dir, g, WriteOptions{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder: got %v", err)
	}
}

func TestWriteRefused(t *testing.T) {
	fused := mustDecode(t, modelOf(in("x"), out("y"), node("Abs", "x->y")))
	fused.Nodes[0].Domain = fusedDomain
	odd := mustDecode(t, modelOf(in("x"), out("y"), node("MatMul", "x,x->y")))
	odd.Nodes[0].Domain, odd.Nodes[0].Attrs = fusedDomain,
		op.Attrs{op.StringAttr("activation", "Frob")}
	mixed := mustDecode(t, modelOf(in("x"), out("y"), node("Softmax", "x->h", intAttr("axis", 0)),
		node("Softmax", "h->y", intAttr("axis", 0))))
	mixed.Nodes[0].Version = 11
	cases := []struct {
		name string
		g    *graph.Graph
		kind error
	}{{"weir's own operator", fused, op.ErrUnsupported},
		{"unknown activation", odd, op.ErrUnsupported},
		{"two versions that differ", mixed, ErrOpset}}
	for _, c := range cases {
		if err := Write(&bytes.Buffer{}, c.g, WriteOptions{}); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.kind)
		}
	}
}

// TestFusedFunctions checks that the function which other runtimes expand computes what the fused
// operator does: the written model is read once as it is and once with its domain renamed, so that
// weir expands the function, too.
func TestFusedFunctions(t *testing.T) {
	x := []float32{-4, -3, -2.5, -1, -0.5, 0, 0.5, 1, 2.5, 3, 4, 7}
	f32 := func(name string, shape ...int) *graph.Value {
		return &graph.Value{Name: name, Type: op.Concrete(tensor.Float32, shape...)}
	}
	opset := 13
	build := func(typ string, attrs op.Attrs, in []*graph.Value) *graph.Graph {
		n := graph.NewNode("n", typ, 1, attrs, in, "y")
		n.Domain = fusedDomain
		g := &graph.Graph{Name: "g", Inputs: []*graph.Value{in[0]}, Nodes: []*graph.Node{n},
			Outputs: n.Out, Opsets: map[string]int{"": opset}}
		if err := errors.Join(g.Check(), g.InferTypes()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	one := graph.NewConst("one", tensor.From([]float32{1}, 1, 1))
	graphs := map[string]*graph.Graph{
		"Silu alone": build("Silu", nil, []*graph.Value{f32("x", 12, 1)}),
		"MatMul with a vector": build("MatMul", nil,
			[]*graph.Value{f32("x", 12, 1), one,
				graph.NewConst("b", tensor.From([]float32{0.25}, 1))}),
		"Gemm": build("Gemm",
			op.Attrs{op.FloatAttr("alpha", 2), op.StringAttr("activation", "Relu")},
			[]*graph.Value{f32("x", 12, 1), one}),
		"Conv without bias, with a tensor": build("Conv",
			op.Attrs{op.IntsAttr("kernel_shape", 1, 1), op.StringAttr("activation", "Relu")},
			[]*graph.Value{f32("x", 1, 1, 12, 1),
				graph.NewConst("w", tensor.From([]float32{3}, 1, 1, 1, 1)), nil,
				graph.NewConst("z", tensor.From(x, 1, 1, 12, 1))}),
		"Conv of scaled weights": build("Conv", nil,
			[]*graph.Value{f32("x", 1, 1, 12, 1),
				graph.NewConst("w", tensor.From([]float32{3, -1}, 2, 1, 1, 1)), nil, nil,
				graph.NewConst("s", tensor.From([]float32{0.5, 2}, 2))}),
		"MatMul of transposed weights": build("MatMul", op.Attrs{op.IntAttr("transB", 1)},
			[]*graph.Value{f32("x", 12, 1),
				graph.NewConst("w", tensor.From([]float32{3, -1}, 2, 1))}),
		"Clip above only": build("MatMul",
			op.Attrs{op.StringAttr("activation", "Clip"), op.FloatAttr("activation_beta", 6)},
			[]*graph.Value{f32("x", 12, 1), one}),
	}
	for _, a := range op.FusedActivations {
		graphs[a] = build("MatMul",
			op.Attrs{op.StringAttr("activation", a), op.FloatAttr("activation_alpha", 0.125),
				op.FloatAttr("activation_beta", 0.75)}, []*graph.Value{f32("x", 12, 1), one})
	}
	for _, opset = range []int{13, 21} { // rounding to 16 bits has two forms
		step, two := graph.NewConst("s", tensor.Scalar[float32](0.5)), op.IntAttr("axis", -1)
		for _, zero := range []*tensor.Tensor{tensor.Scalar[uint16](3), tensor.Scalar[int8](-124),
			tensor.Scalar[int8](124)} {
			graphs[fmt.Sprint("Grid of ", zero.DType, opset)] = build("Grid", nil,
				[]*graph.Value{f32("x", 12, 1), step, graph.NewConst("z", zero)})
		}
		graphs[fmt.Sprint("Grid by axis", opset)] = build("Grid", op.Attrs{two},
			[]*graph.Value{f32("x", 6, 2), graph.NewConst("s", tensor.From([]float32{0.5, 3}, 2)),
				graph.NewConst("z", tensor.From([]int16{-32766, 7}, 2))})
		links := []op.Link{op.LinkAdd, op.LinkGrid, op.LinkClip, op.LinkTimes, op.LinkKeep,
			op.LinkMul, op.LinkDiv, op.LinkTimes}
		graphs[fmt.Sprint("Chain", opset)] = build("Chain", op.LinksAttrs(links, []float32{3, 0, 0,
			0.5, -3, 20, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1.5, 0, 0, 6, 0, 0, 0, 0, 0}),
			[]*graph.Value{f32("x", 12, 1)})
		for _, lo := range []float32{-3, 2, -65536, -65531} {
			attrs := op.Attrs{op.StringAttr("activation", "Grid"),
				op.FloatAttr("activation_alpha", 0.5), op.FloatAttr("activation_beta", lo)}
			graphs[fmt.Sprint("Grid from ", lo, opset)] = build("MatMul", attrs,
				[]*graph.Value{f32("x", 12, 1), one})
			graphs[fmt.Sprint("Grid to 3 from ", lo, opset)] = build("MatMul",
				append(attrs, op.FloatAttr("activation_gamma", 3)),
				[]*graph.Value{f32("x", 12, 1), one})
		}
	}
	for name, g := range graphs {
		var b bytes.Buffer
		if err := Write(&b, g, WriteOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back := mustDecode(t, b.Bytes())
		if err := same(g, back); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		expanded := mustDecode(t, bytes.ReplaceAll(b.Bytes(), []byte(fusedDomain), []byte("else")))
		if expanded.Nodes[0].Domain != "" {
			t.Errorf("%s: the function was not expanded", name)
		}
		shape, _ := g.Inputs[0].Type.Ints()
		want, err := g.Eval(t.Context(), []*tensor.Tensor{tensor.From(x, shape...)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := expanded.Eval(t.Context(), []*tensor.Tensor{tensor.From(x, shape...)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := tensor.Close(got[0], want[0], 1e-5, 1e-6); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGridsOfUnlikeTypes keeps the functions of two types apart, and writes ONNX's own operators
// where the opset has them for integers of 16 bits.
func TestGridsOfUnlikeTypes(t *testing.T) {
	for opset, own := range map[int]bool{13: false, 21: true} {
		x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 4)}
		g := &graph.Graph{Name: "g", Inputs: []*graph.Value{x}, Opsets: map[string]int{"": opset}}
		step := graph.NewConst("s", tensor.Scalar[float32](1))
		for i, zero := range []*tensor.Tensor{tensor.Scalar[uint16](0), tensor.Scalar[int16](0)} {
			n := graph.NewNode("n", "Grid", 1, nil, []*graph.Value{x, step,
				graph.NewConst(fmt.Sprint("z", i), zero)}, fmt.Sprint("y", i))
			n.Domain = fusedDomain
			g.Nodes, g.Outputs = append(g.Nodes, n), append(g.Outputs, n.Out...)
		}
		if err := errors.Join(g.Check(), g.InferTypes()); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(&b, g, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		expanded := mustDecode(t, bytes.ReplaceAll(b.Bytes(), []byte(fusedDomain), []byte("else")))
		in := []*tensor.Tensor{tensor.From([]float32{-40000, -2.5, 0.4, 40000}, 4)}
		got, err := expanded.Eval(t.Context(), in)
		want, err2 := g.Eval(t.Context(), in)
		if err != nil || err2 != nil || !tensor.Equal(got[0], want[0]) ||
			!tensor.Equal(got[1], want[1]) {
			t.Errorf("opset %d: got %v, want %v (%v)", opset, got, want, errors.Join(err, err2))
		}
		if strings.Contains(expanded.String(), "QuantizeLinear") != own {
			t.Errorf("opset %d: wrote\n%v", opset, expanded)
		}
	}
}

// TestNewerOperatorsInOldModels checks which mixtures of versions can be written: a newer operator
// beside older ones that were only extended since.
func TestNewerOperatorsInOldModels(t *testing.T) {
	cases := []struct {
		name, typ string
		attrs     []part
		raised    int
		ok        bool
	}{
		{"Shape was extended", "Shape", nil, 17, true},
		{"Softmax changed in 13", "Softmax", nil, 17, false},
		{"ReduceMean changed in 18 only", "ReduceMean", nil, 17, true},
		{"ReduceMean changed in 18", "ReduceMean", nil, 18, false},
	}
	for _, c := range cases {
		m, err := Decode(join(
			msg(number(1, 8), sub(7, in("x"), sub(12, text(1, "y")), sub(12, text(1, "z")),
				node(c.typ, "x->y", c.attrs...), node("Relu", "x->z")), opsetPart("", 12))), "",
			Options{})
		if err != nil {
			t.Fatal(err)
		}
		m.Graph.Nodes[1].Type, m.Graph.Nodes[1].Version = "Clip", c.raised
		_, err = rewritten(m.Graph, Options{})
		if c.ok && err != nil || !c.ok && !errors.Is(err, ErrOpset) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
