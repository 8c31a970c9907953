package pass

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
)

// scope is one graph while it is rewritten, together with the readers of each value, which are kept
// up to date. Rules query it; only the driver changes it.
type scope struct {
	ctx       context.Context // of the run, for evaluations
	g         *graph.Graph
	opset     int  // version of ONNX's own operators
	portable  bool // only ONNX's own operators may come out
	ahead     bool // shapes will be known later
	precision Precision
	features  compute.Features
	inner     bool // a body, whose outputs go by position and need not keep their names

	// may list nodes that are gone or no longer read the value
	users map[*graph.Value][]*graph.Node
	// how often nodes read the value; every value of the graph has an entry
	count  map[*graph.Value]int
	output map[*graph.Value]bool
	input  map[*graph.Value]bool
	// the names of all values that the model has or had, in all its graphs: a name is never used
	// again, since symbols are named after values
	names   map[string]bool
	removed map[*graph.Node]bool
	dirty   map[*graph.Node]bool // inputs whose types have changed since the node's were inferred
	failed  map[*graph.Node]bool // nodes that folding could not evaluate
	// bytes by which folding may still enlarge the model, bodies included
	room *int
}

func newScope(ctx context.Context, g *graph.Graph, opset int, room *int,
	names map[string]bool) *scope {
	s := &scope{ctx: ctx, g: g, opset: opset, room: room, names: names,
		users:  make(map[*graph.Value][]*graph.Node, len(g.Nodes)),
		count:  make(map[*graph.Value]int, 2*len(g.Nodes)),
		output: map[*graph.Value]bool{}, input: map[*graph.Value]bool{},
		removed: map[*graph.Node]bool{}, dirty: map[*graph.Node]bool{},
		failed: map[*graph.Node]bool{}}
	for _, v := range g.Inputs {
		s.input[v], s.count[v] = true, 0
	}
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				s.count[v] = 0
			}
		}
		s.read(n)
	}
	for _, v := range g.Outputs {
		s.output[v] = true
		s.count[v] += 0
	}
	return s
}

// allNames collects the names of the values of a graph and of all in it.
func allNames(g *graph.Graph) map[string]bool {
	names := make(map[string]bool, 2*len(g.Nodes))
	add := func(vs []*graph.Value) {
		for _, v := range vs {
			if v != nil {
				names[v.Name] = true
			}
		}
	}
	g.Walk(func(b *graph.Graph) {
		add(b.Inputs)
		for _, n := range b.Nodes {
			add(n.In)
			add(n.Out)
		}
		add(b.Outputs)
	})
	return names
}

// read counts what n reads.
func (s *scope) read(n *graph.Node) {
	for _, v := range n.In {
		if v != nil {
			s.count[v]++
			s.users[v] = append(s.users[v], n)
		}
	}
}

// register makes an inserted node part of the graph.
func (s *scope) register(n *graph.Node) {
	for _, v := range n.In {
		if v != nil && v.IsConst() {
			s.adopt(v)
		}
	}
	for _, v := range n.Out {
		if v != nil {
			s.names[v.Name] = true
			s.count[v] += 0
		}
	}
	s.read(n)
}

// adopt gives a name that no other value has to a constant that a rule has made.
func (s *scope) adopt(v *graph.Value) {
	if _, known := s.count[v]; !known {
		v.Name = s.fresh(v.Name)
		s.count[v] = 0
	}
}

// drop removes n when nobody reads its outputs, and then what only n has read.
func (s *scope) drop(n *graph.Node) {
	if n == nil || s.removed[n] || !s.dead(n) {
		return
	}
	s.removed[n] = true
	for _, v := range n.In {
		if v != nil {
			s.count[v]--
		}
	}
	for _, v := range n.In {
		if v != nil {
			s.drop(v.Producer)
		}
	}
}

// dead reports whether no output of n is read.
func (s *scope) dead(n *graph.Node) bool {
	for _, v := range n.Out {
		if s.used(v) {
			return false
		}
	}
	return true
}

// used reports whether a node reads v or v is an output of the graph; v may be nil.
func (s *scope) used(v *graph.Value) bool { return v != nil && (s.count[v] > 0 || s.output[v]) }

// only reports whether v is read once and by a node, so that it need not exist once that node is
// rewritten.
func (s *scope) only(v *graph.Value) bool { return s.count[v] == 1 && !s.output[v] }

// computed reports whether v belongs to the graph already.
func (s *scope) computed(v *graph.Value) bool {
	_, ok := s.count[v]
	return ok
}

// renamable reports whether v may take the name of a graph output.
func (s *scope) renamable(v *graph.Value) bool {
	return v.Producer != nil && !s.output[v] && !s.input[v]
}

// replaceable reports whether old can give way to an existing value without a node that copies it.
func (s *scope) replaceable(old, v *graph.Value) bool {
	return s.inner || !s.output[old] || v.IsConst() || s.renamable(v)
}

// readers returns the nodes that read v, each once.
func (s *scope) readers(v *graph.Value) []*graph.Node {
	var out []*graph.Node
	for _, n := range s.users[v] {
		if s.removed[n] || len(out) > 0 && out[len(out)-1] == n {
			continue
		}
		for _, w := range n.In {
			if w == v {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

// fresh returns a name that no value of the graph has or had.
func (s *scope) fresh(base string) string {
	name := base
	for i := 1; name == "" || s.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	s.names[name] = true
	return name
}

// reinfer brings the types of n's outputs up to date. A shape rule that refuses leaves them as they
// are: the node fails when it runs, if it ever does.
func (s *scope) reinfer(n *graph.Node) {
	delete(s.dirty, n)
	was := make([]*graph.Value, len(n.Out))
	for i, v := range n.Out {
		if v != nil {
			w := *v
			was[i] = &w
		}
	}
	if n.InferTypes() != nil {
		return
	}
	for i, v := range n.Out {
		if v == nil || was[i].Type.Identical(v.Type) {
			continue
		}
		for _, u := range s.readers(v) {
			s.dirty[u] = true
		}
	}
}
