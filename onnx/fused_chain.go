package onnx

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// chain writes the links of weir:Chain.
func (f *functionBody) chain(n *graph.Node, x string) string {
	links, values := op.LinksOf(n.Attrs)
	y, kept := f.call("Identity", nil, x), x
	for i, link := range links {
		v := values[op.LinkNumbers*i:]
		switch link {
		case op.LinkKeep:
			kept = y
		case op.LinkTimes:
			y = f.call("Mul", nil, y, kept)
		case op.LinkAdd:
			y = f.call("Add", nil, y, f.scalar(float64(v[0])))
		case op.LinkMul:
			y = f.call("Mul", nil, y, f.scalar(float64(v[0])))
		case op.LinkDiv:
			y = f.call("Div", nil, y, f.scalar(float64(v[0])))
		case op.LinkClip:
			y = f.clip(y, v[0], v[1])
		case op.LinkGrid:
			y = f.grid(y, v[0], v[1], v[2])
		}
	}
	return y
}
