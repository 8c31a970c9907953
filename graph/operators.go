package graph

// Whoever has a graph has the operators of every domain: these packages register their rows with
// package op.
import (
	_ "github.com/weirgpu/weir/op/microsoft"
	_ "github.com/weirgpu/weir/op/ml"
)
