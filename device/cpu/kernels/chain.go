package kernels

import (
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
)

// chain is weir:Chain: all links of a piece, which stays in the first cache, one after another.
func chain(r *request) vecFunc {
	list, values := op.LinksOf(r.Call.Attrs)
	return func(dst, x []float32) {
		var kept [piece]float32
		for len(dst) > 0 {
			n := min(piece, len(dst))
			linksOfPiece(dst[:n], x[:n], kept[:n], list, values)
			dst, x = dst[n:], x[n:]
		}
	}
}

// linksOfPiece computes the links, of which LinkTimes takes what is kept.
func linksOfPiece(y, x, kept []float32, list []op.Link, values []float32) {
	copy(kept, x)
	for i, s := range list {
		v := values[op.LinkNumbers*i:]
		switch s {
		case op.LinkKeep:
			copy(kept, x)
			continue
		case op.LinkTimes:
			vec.Mul(y, x, kept)
		case op.LinkAdd:
			vec.AddScalar(y, x, v[0])
		case op.LinkMul:
			vec.MulScalar(y, x, v[0])
		case op.LinkDiv:
			vec.DivScalar(y, x, v[0])
		case op.LinkClip:
			vec.Clip(y, x, v[0], v[1])
		case op.LinkGrid:
			vec.Grid(y, x, v[0], v[1], v[2])
		}
		x = y
	}
	copy(y, x) // where only what is kept was asked for
}
