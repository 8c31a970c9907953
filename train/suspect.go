package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// suspect is a graph with inputs for which it gives what is not finite. It is evaluated node by
// node, by the definitions of the operators.
type suspect struct {
	graph *graph.Graph
	in    []*tensor.Tensor
	quota device.Quota // of the values that are alive; nil grants everything
	gate  device.Gate

	known map[*graph.Value]*tensor.Tensor
	reads map[*graph.Value]int // of nodes to come
	held  int64
}

// find returns the first node with a result that is not finite.
func (s *suspect) find(ctx context.Context) (string, error) {
	s.known, s.reads = map[*graph.Value]*tensor.Tensor{}, map[*graph.Value]int{}
	defer func() { s.release(s.held) }()
	for i, v := range s.graph.Inputs {
		if !finite(s.in[i]) {
			return fmt.Sprintf("input %q, or the weight of that name", v.Name), nil
		}
		s.known[v] = s.in[i]
	}
	for _, n := range s.graph.Nodes {
		for _, v := range n.In {
			s.reads[v]++
		}
	}
	for _, n := range s.graph.Nodes {
		if err := s.turn(ctx); err != nil {
			return "", err
		}
		sound, err := s.node(ctx, n)
		if err != nil {
			return "", fmt.Errorf("%v: %w", n, err)
		}
		if !sound {
			return n.String(), nil
		}
	}
	return "no node by the operators' definitions: report it", nil
}

// turn gives the device back where others want it.
func (s *suspect) turn(ctx context.Context) error {
	if s.gate.Revoked() {
		return s.gate.Renew(ctx)
	}
	return ctx.Err()
}

// node evaluates a node, and reports whether all that it gives is finite.
func (s *suspect) node(ctx context.Context, n *graph.Node) (sound bool, err error) {
	o, err := n.Op()
	if err != nil {
		return false, err
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, v := range n.In {
		if v == nil {
			continue
		}
		if in[i] = s.known[v]; in[i] == nil {
			in[i] = v.Const()
		}
	}
	for _, v := range n.Out {
		if v != nil && s.reads[v] > 0 {
			if err := s.reserve(v); err != nil {
				return false, err
			}
		}
	}
	out, err := op.Run(ctx, o, n.Call(), in)
	if err != nil {
		return false, err
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		if !finite(out[i]) {
			return false, nil
		}
		if s.reads[v] > 0 {
			s.known[v] = out[i]
		}
	}
	s.forget(n)
	return true, nil
}

// forget drops what a node was the last to read.
func (s *suspect) forget(n *graph.Node) {
	for _, v := range n.In {
		if v == nil {
			continue
		}
		if s.reads[v]--; s.reads[v] > 0 || v.Producer == nil || s.known[v] == nil {
			continue
		}
		delete(s.known, v)
		s.release(bytesOf(v))
	}
}

// bytesOf is what a value of a known shape takes.
func bytesOf(v *graph.Value) int64 {
	shape, _ := v.Type.Ints()
	n, err := tensor.ByteCount(v.Type.DType, shape)
	if err != nil {
		return 0
	}
	return int64(n)
}

// reserve takes the memory of a value.
func (s *suspect) reserve(v *graph.Value) error {
	n := bytesOf(v)
	if s.quota != nil {
		if err := s.quota.Reserve(n); err != nil {
			return errors.Join(errors.New("no room to look at its values"), err)
		}
	}
	s.held += n
	return nil
}

func (s *suspect) release(n int64) {
	if s.quota != nil {
		s.quota.Release(n)
	}
	s.held -= n
}
