package kernels

import (
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
)

// chain is weir:Chain.
func chain(r *request) vecFunc {
	list, values := op.LinksOf(r.Call.Attrs)
	links := make([]vec.Link, 0, len(list))
	for i, s := range list {
		links = append(links, linkOf(s, values[op.LinkNumbers*i:]))
	}
	return func(dst, x []float32) { vec.Chain(dst, x, links) }
}

// linkOf is a link with its numbers.
func linkOf(s op.Link, v []float32) vec.Link {
	switch s {
	case op.LinkTimes:
		return vec.TimesLink()
	case op.LinkAdd:
		return vec.AddLink(v[0])
	case op.LinkMul:
		return vec.MulLink(v[0])
	case op.LinkDiv:
		return vec.DivLink(v[0])
	case op.LinkClip:
		return vec.ClipLink(v[0], v[1])
	case op.LinkGrid:
		return vec.GridLink(v[0], v[1], v[2])
	}
	return vec.KeepLink()
}
