package plan

import (
	"context"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/pass"
)

// Simplify returns a copy of g that the passes have rewritten without knowing the shapes of its
// inputs. [Compile] makes the same plans of it as of g, and for graphs of symbolic shapes sooner,
// since the passes find their work done: compile many shapes from it. Passes that choose weir's own
// operators are left to Compile, which knows more.
func Simplify(ctx context.Context, g *graph.Graph) (*graph.Graph, error) {
	s, err := g.Specialize(nil)
	if err != nil {
		return nil, err
	}
	if _, err := pass.Run(ctx, s, pass.Options{Portable: true}); err != nil {
		return nil, err
	}
	return s, nil
}
