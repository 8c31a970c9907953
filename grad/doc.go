// Package grad differentiates graphs: it adds to a graph the nodes that compute gradients of its
// values.
//
// Meet first: [Backward], reverse accumulation (Linnainmaa 1976) over one graph, and [Objective],
// what it differentiates. The rule of each operator stands beside its row in internal/op
// (op.Op.Gradient). This package holds what all rules have in common: which values depend on which,
// the sum over several uses of a value, and the errors.
//
// A gradient is exact for what the operators compute, not for what the graph may be meant to
// approximate: rounding, comparing and indexing have derivatives of zero. An operator whose
// derivatives are zero for that reason says so in its row. An operator that merely has no rule is
// an error, so that no gradient is silently zero. A graph to which gradients were added is an
// ordinary graph and can be differentiated again.
//
// Gradients are added before passes run: fused operators have no rules. Those of an If are another
// If, whose branches are the backward halves of its own; a Loop or Scan is computed anew, iteration
// after iteration.
//
// Concurrency: Backward changes its graph, which nobody else may use meanwhile.
//
// What it refuses, with an error of kind op.ErrNoGradient that names node and operator: objectives
// that depend on a value of By through an operator without a rule, through a Loop or Scan of which
// it is not known how often it runs, or through an operand that the operator's rule does not cover;
// element types other than float16, bfloat16, float32 and float64; operands whose rank or element
// type is not known.
package grad
