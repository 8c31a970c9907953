package graph

// These packages register the operators of their domains with package op. They are imported here so
// that every program that has a graph has all operators.
import (
	_ "github.com/weirgpu/weir/op/microsoft"
	_ "github.com/weirgpu/weir/op/ml"
)
