package step

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Role is what a weight does in its layer, which decides what a random one is.
type Role string

// The roles of weights.
const (
	Product  Role = "product"  // is multiplied and summed
	Bias     Role = "bias"     // is added
	Scale    Role = "scale"    // multiplies what was normalised
	Slope    Role = "slope"    // of what is negative
	Table    Role = "table"    // of vectors that are looked up
	Mean     Role = "mean"     // running statistics, which are not trained but move with each
	Variance Role = "variance" // batch
)

// Param is a weight that is trained, or a running statistic.
type Param struct {
	Name    string         // of the constant in the model, and of the variable
	Start   *tensor.Tensor // as the model has it
	Role    Role
	Fan     int    // of a product: how many numbers are summed
	Average string // the variable that holds its running average; "" for none
}

// averageSuffix ends the names of running averages.
const averageSuffix = "/average"

// roles are the operands of operators that are weights when they are constants, by the number of
// the operand. What an operator adds or multiplies by is in elementwise.
var roles = map[string]map[int]Role{
	"Conv":                         {1: Product, 2: Bias},
	"ConvTranspose":                {1: Product, 2: Bias},
	"Gemm":                         {0: Product, 1: Product, 2: Bias},
	"MatMul":                       {0: Product, 1: Product},
	"FusedMatMul":                  {0: Product, 1: Product},
	"BatchNormalization":           {1: Scale, 2: Bias},
	"InstanceNormalization":        {1: Scale, 2: Bias},
	"LayerNormalization":           {1: Scale, 2: Bias},
	"GroupNormalization":           {1: Scale, 2: Bias},
	"RMSNormalization":             {1: Scale},
	"SkipLayerNormalization":       {2: Scale, 3: Bias, 4: Bias},
	"SimplifiedLayerNorm":          {1: Scale},
	"SimplifiedLayerNormalization": {1: Scale},
	"BiasGelu":                     {1: Bias},
	"FastGelu":                     {1: Bias},
	"PRelu":                        {1: Slope},
	"Gather":                       {0: Table},
	"LSTM":                         {1: Product, 2: Product, 3: Bias, 7: Bias},
	"GRU":                          {1: Product, 2: Product, 3: Bias},
	"RNN":                          {1: Product, 2: Product, 3: Bias},
}

// elementwise are operators that add constants to what they are given, or multiply by them.
var elementwise = map[string]Role{"Add": Bias, "Sub": Bias, "Mul": Scale, "Div": Scale}

// moving are operators through which a weight may go on its way to where it is used.
var moving = map[string]bool{"Transpose": true, "Reshape": true, "Identity": true,
	"Unsqueeze": true, "Squeeze": true, "Flatten": true}

// find lists the weights to train, and the statistics of their layers.
func (b *builder) find(o Options) error {
	f := finder{own: b.own, of: map[*graph.Value]*Param{}, learned: map[*graph.Value]bool{},
		moved: map[*graph.Value]*graph.Value{}}
	for _, n := range b.g.Nodes {
		f.node(n)
	}
	for _, pattern := range slices.Concat(o.Train, o.Freeze) {
		if !slices.ContainsFunc(f.found, func(v *graph.Value) bool {
			return Matches(pattern, v.Name)
		}) {
			return fmt.Errorf("graph %q: %w: %q: it has %s", b.g.Name, ErrName, pattern, f.some())
		}
	}
	for _, v := range f.found {
		if p := f.of[v]; chosen(v.Name, o) {
			if o.Average > 0 {
				p.Average = v.Name + averageSuffix
			}
			b.weights, b.params = append(b.weights, v), append(b.params, *p)
		}
	}
	if len(b.weights) == 0 {
		return fmt.Errorf("graph %q: %w: %s", b.g.Name, ErrNothing, f.why(o))
	}
	b.statistics()
	return nil
}

// chosen reports whether a weight of that name is to be trained.
func chosen(name string, o Options) bool {
	matches := func(pattern string) bool { return Matches(pattern, name) }
	return (len(o.Train) == 0 || slices.ContainsFunc(o.Train, matches)) &&
		!slices.ContainsFunc(o.Freeze, matches)
}

// Matches reports whether a pattern is a name, with * for any text.
func Matches(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00", "[", `\[`, "?", `\?`)
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(name))
	return ok && err == nil
}

// finder looks for constants that are weights.
type finder struct {
	own     map[string]bool // constants that may be weights; nil for all
	found   []*graph.Value
	of      map[*graph.Value]*Param
	moved   map[*graph.Value]*graph.Value // constants, by what they are after moves
	learned map[*graph.Value]bool         // values that depend on weights
}

// node looks at the operands of a node.
func (f *finder) node(n *graph.Node) {
	for i, v := range n.In {
		if c := f.constant(v); c != nil {
			if role, ok := f.role(n, i); ok {
				f.add(c, Param{Role: role, Fan: fan(n, i)})
			}
		}
	}
	if moving[n.Type] && len(n.In) > 0 && len(n.Out) > 0 {
		if c := f.constant(n.In[0]); c != nil {
			f.moved[n.Out[0]] = c
		}
	}
	if slices.ContainsFunc(n.In, func(v *graph.Value) bool {
		return f.learned[v] || f.of[v] != nil ||
			f.of[f.moved[v]] != nil
	}) {
		for _, v := range n.Out {
			f.learned[v] = true
		}
	}
}

// constant is the constant of real numbers that an operand is, moved or not.
func (f *finder) constant(v *graph.Value) *graph.Value {
	if v == nil {
		return nil
	}
	if c := f.moved[v]; c != nil {
		v = c
	}
	if !v.IsConst() || v.Const().DType != tensor.Float32 || v.Const().Len() == 0 {
		return nil
	}
	return v
}

// role is what a constant operand does. Numbers that are added or count as factors are weights only
// where they meet what weights have made: before, they bring inputs to a range.
func (f *finder) role(n *graph.Node, i int) (Role, bool) {
	if of, ok := roles[n.Type]; ok {
		role, ok := of[i]
		return role, ok
	}
	role, ok := elementwise[n.Type]
	if !ok || len(n.In) != 2 || !f.learned[n.In[1-i]] {
		return "", false
	}
	t := n.In[i].Const()
	if t == nil {
		c := f.constant(n.In[i])
		t = c.Const()
	}
	return role, t.Len() > 1 && moderate(t) && !mask(role, t)
}

// mask tells weights from masks whose parts are all or nothing: what is added is 0 or one large
// number, as Swin's windows have -100, and what multiplies is 0 or 1, both of them.
func mask(role Role, t *tensor.Tensor) bool {
	const large = 10
	v := tensor.As[float32](t)
	other := float32(0)
	zeros := 0
	for _, x := range v {
		switch {
		case x == 0:
			zeros++
		case other != 0 && x != other:
			return false
		default:
			other = x
		}
	}
	if zeros == 0 || other == 0 {
		return false
	}
	if role == Scale {
		return other == 1
	}
	return other >= large || other <= -large
}

// moderate tells weights from masks, which add what is as good as minus infinity.
func moderate(t *tensor.Tensor) bool {
	const most = 1000
	for _, v := range tensor.As[float32](t) {
		if !(v > -most && v < most) {
			return false
		}
	}
	return true
}

func (f *finder) add(v *graph.Value, p Param) {
	if f.of[v] != nil || f.own != nil && !f.own[v.Name] {
		return
	}
	p.Name, p.Start = v.Name, v.Const()
	f.of[v] = &p
	f.found = append(f.found, v)
}

// fan is how many numbers a product sums for one of its results.
func fan(n *graph.Node, i int) int {
	shape, ok := n.In[i].Type.Ints()
	if !ok || len(shape) < 2 {
		return 0
	}
	last := len(shape) - 1
	switch n.Type {
	case "Conv":
		return product(shape[1:])
	case "ConvTranspose":
		return shape[0] * product(shape[2:])
	case "Gemm":
		trans := n.Attrs.Int([]string{"transA", "transB"}[min(i, 1)], 0)
		if (i == 0) == (trans == 0) {
			return shape[1]
		}
		return shape[0]
	case "LSTM", "GRU", "RNN":
		return shape[last]
	}
	if i == 0 {
		return shape[last]
	}
	return shape[last-1]
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// why says why there is nothing to train.
func (f *finder) why(o Options) string {
	if len(f.found) == 0 {
		return "no operator has a constant float32 weight"
	}
	return fmt.Sprintf("train %q and freeze %q leave none of %s", o.Train, o.Freeze, f.some())
}

// some names some of the weights.
func (f *finder) some() string {
	var names []string
	for _, v := range f.found {
		if names = append(names, v.Name); len(names) == 5 {
			names = append(names, "...")
			break
		}
	}
	return fmt.Sprintf("%d weights: %s", len(f.found), strings.Join(names, ", "))
}

// statistics lists the running means and variances of the batch normalisations whose scales are
// trained.
func (b *builder) statistics() {
	for _, n := range b.g.Nodes {
		if !b.normalises(n) {
			continue
		}
		for i, role := range []Role{Mean, Variance} {
			if v := n.In[3+i]; !slices.Contains(b.stats, v) {
				b.stats = append(b.stats, v)
				b.params = append(b.params, Param{Name: v.Name, Start: v.Const(), Role: role})
			}
		}
	}
}

// normalises reports whether a node is a batch normalisation that is to use the moments of the
// batch: one whose scale is trained. One that is frozen stays as it is.
func (b *builder) normalises(n *graph.Node) bool {
	return n.Type == "BatchNormalization" && n.Domain == "" && len(n.In) == 5 &&
		slices.Contains(b.weights, n.In[1]) && n.In[3].Type.DType == tensor.Float32 &&
		(n.In[3].IsConst() && n.In[4].IsConst() || slices.Contains(b.stats, n.In[3]))
}

// normalise has batch normalisations use the moments of the batch, and returns what their running
// statistics become. One whose result goes to a Relu or Clip alone takes that in.
func (b *builder) normalise() (rs []replaced) {
	for _, n := range slices.Clone(b.g.Nodes) {
		if !b.normalises(n) {
			continue
		}
		n.Domain, n.Version, n.Attrs = op.FusedDomain, 1, op.Attrs{
			op.FloatAttr("epsilon", n.Attrs.Float("epsilon", 1e-5)),
			op.FloatAttr("momentum", n.Attrs.Float("momentum", 0.9))}
		n.Out = n.Out[:1]
		for i, v := range n.In[3:5] {
			out := &graph.Value{Name: b.fresh("statistic"), Type: v.Type, Producer: n, Index: i + 1}
			n.Out = append(n.Out, out)
			rs = append(rs, replaced{v.Name, out, false})
		}
		b.activate(n)
	}
	return rs
}

// activate has a batch normalisation compute what a Relu or Clip, its only reader, makes of its
// result.
func (b *builder) activate(n *graph.Node) {
	var reader *graph.Node
	for _, m := range b.g.Nodes {
		if len(m.Bodies()) > 0 {
			return // which may read it, too
		}
		for _, v := range m.In {
			if v != n.Out[0] {
				continue
			}
			if reader != nil {
				return
			}
			reader = m
		}
	}
	if reader == nil || slices.Contains(b.g.Outputs, n.Out[0]) {
		return
	}
	clips := clipping(reader, n.Out[0])
	if clips == nil {
		return
	}
	n.Attrs = append(n.Attrs, clips...)
	y := reader.Out[0]
	y.Producer, y.Index, n.Out[0] = n, 0, y
	b.g.Nodes = slices.DeleteFunc(b.g.Nodes, func(m *graph.Node) bool { return m == reader })
}

// clipping are the attributes of an activation that does to v what a node does, nil where there is
// none.
func clipping(n *graph.Node, v *graph.Value) op.Attrs {
	if n.Domain != "" || n.In[0] != v {
		return nil
	}
	if n.Type == "Relu" {
		return op.Attrs{op.StringAttr("activation", "Relu")}
	}
	if n.Type != "Clip" || n.Version < 11 {
		return nil
	}
	as := op.Attrs{op.StringAttr("activation", "Clip")}
	var bounds []float32
	for i, name := range []string{"activation_alpha", "activation_beta"} {
		if i+1 >= len(n.In) || n.In[i+1] == nil {
			continue
		}
		c := n.In[i+1].Const()
		if c == nil || c.DType != tensor.Float32 || c.Len() != 1 {
			return nil
		}
		bound := tensor.As[float32](c)[0]
		as, bounds = append(as, op.FloatAttr(name, bound)), append(bounds, bound)
	}
	if len(bounds) == 2 && !(bounds[0] <= bounds[1]) {
		return nil
	}
	return as
}
