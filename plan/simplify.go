package plan

import (
	"context"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/pass"
)

// Ahead returns a copy of g to compile for many shapes ([Compile]): what the passes can do without
// knowing them is done, and [Compile] makes the same plans from the copy as from g, sooner. Weights
// stay g's where kernels read or pack those, so that the copy has few bytes of its own. It is for
// this process alone.
func Ahead(ctx context.Context, g *graph.Graph) (s *graph.Graph, err error) {
	err = fault.Do(func() error {
		s, _, err = simplified(ctx, g, pass.Options{Ahead: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Simplify returns a copy of g that the passes have rewritten without knowing the shapes of its
// inputs. The copy gives g's results for every shape that g takes, whether or not the shape agrees
// with the names of g's dimensions ([graph.Graph.Specialize]). Passes that choose weir's own
// operators are left out, so that other runtimes can load the copy, too. Its inputs and outputs are
// declared as those of g. To compile one model for many shapes use [Ahead].
func Simplify(ctx context.Context, g *graph.Graph) (*graph.Graph, error) {
	s, _, err := SimplifyWith(ctx, g, pass.Options{})
	return s, err
}

// SimplifyWith is [Simplify] with options, and returns the report of the passes as well. The copy
// is portable whatever the options say.
func SimplifyWith(ctx context.Context, g *graph.Graph, o pass.Options) (s *graph.Graph,
	report pass.Report, err error) {
	o.Portable = true
	err = fault.Do(func() error {
		s, report, err = simplified(ctx, g, o)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return s, report, nil
}

// simplified is SimplifyWith, and Ahead, that may panic.
func simplified(ctx context.Context, g *graph.Graph, o pass.Options) (*graph.Graph, pass.Report,
	error) {
	s, err := g.Specialize(nil)
	if err != nil {
		return nil, nil, err
	}
	declare := counters(g, s)
	report, err := pass.Run(ctx, s, o)
	if err != nil {
		return nil, nil, err
	}
	declare()
	for i, v := range g.Inputs {
		s.Inputs[i].Type = v.Type
	}
	for i, v := range g.Outputs {
		if t := v.Type; !s.Outputs[i].IsConst() && t.DType == s.Outputs[i].Type.DType {
			s.Outputs[i].Type = t
		}
	}
	return s, report, nil
}

// counters returns a function that declares two inputs of the bodies of Loop in s, a copy of g that
// is rewritten later: the number of the iteration and the condition. Where no rule tells their
// shape, it declares them as g does: ONNX Runtime makes both of the declared rank, and refuses a
// body that declares none.
func counters(g, s *graph.Graph) (declare func()) {
	var of, to []*graph.Value
	collect := func(list *[]*graph.Value) func(*graph.Graph) {
		return func(b *graph.Graph) {
			for _, n := range b.Nodes {
				for _, body := range n.Bodies() {
					if n.Type == "Loop" {
						*list = append(*list, body.Inputs[:min(2, body.NumFormals())]...)
					}
				}
			}
		}
	}
	g.Walk(collect(&of))
	s.Walk(collect(&to))
	return func() {
		for i, v := range to {
			if !v.Type.Ranked && i < len(of) {
				v.Type = of[i].Type
			}
		}
	}
}
