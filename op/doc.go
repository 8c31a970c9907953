// Package op is what one writes an operator of one's own with: see weir.Operator, and the program
// examples/operator.
//
// Meet first: [Eval] is what an evaluation is given, [Infer] what a shape rule is given, and [Type]
// what a rule says of an output, with sizes that may be symbols ([Dim]). Errors about what an
// operator is given are of kind [ErrInput], those about its attributes of kind [ErrAttr].
//
// The types are those of the engine, so that kernels (package device/compute) and graphs take and
// give them, too.
//
// Concurrency: a context of an evaluation or rule is used by one goroutine; types and attributes
// are not written once they are made.
//
// What it refuses: attributes of another kind than asked for, operands of other types or ranks, and
// sizes that no memory holds are errors.
package op

//go:generate go -C _generate run . ..
