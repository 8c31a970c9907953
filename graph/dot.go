package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Dot writes g in the language of Graphviz: nodes as boxes, values as edges with their types,
// inputs and outputs as ellipses, bodies as clusters. Constants are left out, except those of one
// element, which are written in the box of the node that reads them.
func Dot(w io.Writer, g *Graph) error {
	d := &dotter{w: bufio.NewWriter(w), ids: map[any]string{}}
	d.line("digraph %s {", dotQuote(g.Name))
	d.line(
		"  node [shape=box, fontname=Helvetica, fontsize=10]; edge [fontname=Helvetica, " +
			"fontsize=8];",
	)
	d.graph(g, nil)
	d.line("}")
	return d.w.Flush()
}

type dotter struct {
	w   *bufio.Writer
	ids map[any]string // of nodes, and of values that are inputs
}

func (d *dotter) line(format string, args ...any) {
	fmt.Fprintf(d.w, format, args...)
	d.w.WriteByte('\n')
}

func (d *dotter) id(key any) string {
	id := d.ids[key]
	if id == "" {
		id = fmt.Sprintf("n%d", len(d.ids))
		d.ids[key] = id
	}
	return id
}

// body writes a body of n as a cluster.
func (d *dotter) body(b *Graph, n *Node) {
	d.line("  subgraph cluster_%s {", d.id(b))
	d.line("  label=%s;", dotQuote(b.Name))
	d.graph(b, n)
	d.line("  }")
	for i, v := range b.Outputs {
		d.edge(v, d.id(n), fmt.Sprintf("style=dashed, label=%q", fmt.Sprint(i)))
	}
}

// graph writes the nodes and edges of g; owner is the node whose body it is.
func (d *dotter) graph(g *Graph, owner *Node) {
	for i, v := range g.Inputs {
		d.line("  %s [shape=ellipse, label=%s];", d.id(v), dotQuote(v.Name+"\n"+typeText(v.Type)))
		if from := i - g.NumFormals(); owner != nil && from >= 0 && from < owner.Captures {
			d.edge(owner.In[len(owner.In)-owner.Captures+from], d.id(v), "style=dashed")
		}
	}
	for _, n := range g.Nodes {
		d.line("  %s [label=%s];", d.id(n), dotQuote(dotLabel(n)))
		for _, v := range n.In[:len(n.In)-n.Captures] {
			d.edge(v, d.id(n), "")
		}
		for _, b := range n.Bodies() {
			d.body(b, n)
		}
	}
	if owner != nil {
		return
	}
	for i, v := range g.Outputs {
		out := fmt.Sprintf("out%d", i)
		d.line("  %s [shape=ellipse, label=%s];", out, dotQuote(v.Name))
		d.edge(v, out, "")
	}
}

// edge leads from the producer of v, or v itself if it is an input, to a node.
func (d *dotter) edge(v *Value, to, attrs string) {
	switch {
	case v == nil || v.IsConst():
		return
	case attrs == "":
		attrs = "label=" + dotQuote(typeText(v.Type))
	}
	var from any = v
	if v.Producer != nil {
		from = v.Producer
	}
	d.line("  %s -> %s [%s];", d.id(from), to, attrs)
}

// dotLabel is the operator, its constants of one element and its name.
func dotLabel(n *Node) string {
	label := n.Call().Name()
	for _, v := range n.In {
		if v != nil && v.IsConst() && inline(v) {
			label += " " + elementText(v.Const(), 0)
		}
	}
	if n.Name != "" {
		label += "\n" + n.Name
	}
	return label
}

// dotQuote escapes what Graphviz would read: quotes and backslashes; a newline breaks the label.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
