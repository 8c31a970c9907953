package graph

// These packages register the operators of their domains with internal/op. They are imported here,
// so that every program that has a graph has all operators.
import (
	_ "github.com/weirgpu/weir/internal/op/microsoft"
	_ "github.com/weirgpu/weir/internal/op/ml"
)
