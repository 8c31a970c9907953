package plan

import (
	"context"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/pass"
)

// Simplify returns a copy of g that the passes have rewritten without knowing the shapes of its
// inputs: it gives g's results for every shape that g takes, whether or not that agrees with the
// names of g's dimensions ([graph.Graph.Specialize]). [Compile] makes the same plans of it as of g,
// and for graphs of symbolic shapes sooner, since the passes find their work done: compile many
// shapes from it. Passes that choose weir's own operators are left out, so that other runtimes load
// the copy, too. Its inputs and outputs are declared as those of g.
func Simplify(ctx context.Context, g *graph.Graph) (*graph.Graph, error) {
	s, _, err := SimplifyWith(ctx, g, pass.Options{})
	return s, err
}

// SimplifyWith is [Simplify] with options, which cannot say that the copy need not be portable, and
// the report of the passes.
func SimplifyWith(ctx context.Context, g *graph.Graph, o pass.Options) (s *graph.Graph,
	report pass.Report, err error) {
	err = fault.Do(func() error {
		s, report, err = simplified(ctx, g, o)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return s, report, nil
}

// simplified is SimplifyWith that may panic.
func simplified(ctx context.Context, g *graph.Graph, o pass.Options) (*graph.Graph, pass.Report,
	error) {
	s, err := g.Specialize(nil)
	if err != nil {
		return nil, nil, err
	}
	o.Portable = true
	report, err := pass.Run(ctx, s, o)
	if err != nil {
		return nil, nil, err
	}
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
