package graph

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/op"
)

// Unknown is an operator that nodes of a graph call and that weir does not have, in a version.
type Unknown struct {
	Domain, Type string
	Version      int
	Nodes        int    // that call it, those of bodies counted
	First        string // name of the first of them
	Err          error  // of kind op.ErrUnsupported
}

// String names the operator, its version and where it is.
func (u *Unknown) String() string {
	name := (&op.Call{Domain: u.Domain, Type: u.Type}).Name()
	if u.Nodes == 1 {
		return fmt.Sprintf("%s (version %d, node %q)", name, u.Version, u.First)
	}
	return fmt.Sprintf("%s (version %d, %d nodes, the first %q)", name, u.Version, u.Nodes, u.First)
}

// Unknown lists the operators that nodes of g and of its bodies call and that weir does not have,
// in order of first use.
func (g *Graph) Unknown() []Unknown {
	type call struct {
		domain, typ string
		version     int
	}
	var found []Unknown
	at := map[call]int{}
	g.Walk(func(g *Graph) {
		for _, n := range g.Nodes {
			_, err := n.Op()
			if err == nil {
				continue
			}
			c := call{n.Domain, n.Type, n.Version}
			i, ok := at[c]
			if !ok {
				i, at[c] = len(found), len(found)
				found = append(found, Unknown{Domain: n.Domain, Type: n.Type, Version: n.Version,
					First: n.Name, Err: err})
			}
			found[i].Nodes++
		}
	})
	return found
}

// UnknownError lists all operators of a graph that weir does not have. It is of kind
// op.ErrUnsupported.
type UnknownError struct {
	Graph     string
	Operators []Unknown // at least one
}

// Error names all of them.
func (e *UnknownError) Error() string {
	if len(e.Operators) == 1 && e.Operators[0].Nodes == 1 {
		return fmt.Sprintf("graph %q: %v", e.Graph, e.Operators[0].Err)
	}
	var names []string
	for i := range e.Operators {
		names = append(names, e.Operators[i].text())
	}
	return fmt.Sprintf("graph %q: %v: operators that weir does not have: %s; %s", e.Graph,
		op.ErrUnsupported, strings.Join(names, ", "), op.Advice)
}

// text names the operator with what is known of the reason.
func (u *Unknown) text() string {
	var unknown *op.UnknownError
	if errors.As(u.Err, &unknown) && unknown.Why != "" {
		return u.String() + ": " + unknown.Why
	}
	return u.String()
}

// Unwrap returns op.ErrUnsupported.
func (e *UnknownError) Unwrap() error { return op.ErrUnsupported }
