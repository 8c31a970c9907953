// Package grad differentiates graphs: it adds to a graph the nodes that compute gradients of its
// values.
//
// Meet first: [Backward], reverse accumulation (Linnainmaa 1976) over one graph, and [Objective],
// what it differentiates. The rules of operators stand beside their rows in package op
// (op.Op.Gradient); here is only what they have in common: which values depend on which, the sums
// over several uses of a value, and the errors.
//
// A gradient is exact for what the operators compute, not for what the graph may be meant to
// approximate: rounding, comparing and indexing have derivatives of zero. What has none by nature
// says so in its row; what merely has no rule yet is an error, so that no gradient is silently
// zero. A graph that has gradients added is a graph like others, which can be differentiated again.
//
// Gradients are added before passes run: fused operators have no rules.
//
// Concurrency: Backward changes its graph, which nobody else may use meanwhile.
//
// What it refuses, with an error of kind op.ErrNoGradient that names node and operator: dependence
// through an operator without a rule, through bodies, or by an operand that the rule does not
// cover; element types other than float16, bfloat16, float32 and float64; operands whose rank or
// element type is not known.
package grad
