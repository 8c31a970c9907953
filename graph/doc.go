// Package graph is the intermediate representation of a model: values in single assignment, wired
// through nodes.
//
// Meet first: [Graph] holds nodes in topological order, [Node] is one operator call, [Value] is one
// tensor with what is known of it. [Graph.Check] states the invariants, [Graph.Infer] computes
// types with symbolic dimensions, [Graph.Eval] computes results by the reference evaluation of each
// operator. [Print] and [Parse] are the text form.
//
// Operators of domains other than ONNX's live in packages that register them with internal/op. This
// package imports them all, so that every program that has a graph has the rows of every operator.
//
// A constant is a value without producer whose Type.Const is set. It belongs to the graph as long
// as a node or an output uses it, so that there is no separate list of initialisers to keep up to
// date.
//
// Sub-graphs are attributes of nodes (op.Body); each is itself a closed *Graph: its inputs are its
// formal inputs followed by all captures of the node that owns it. A value of an outer graph never
// appears in an inner one.
//
// Names of dimensions and declared shapes of computed values come from exporters and may be wrong.
// They are for reading. [Graph.Specialize] makes a graph whose types hold for every run, which is
// what plans and passes work on.
//
// Concurrency: a graph is read by any number of goroutines as long as none changes it. Eval changes
// nothing.
//
// What it refuses: Check rejects cycles, undefined and doubly defined values, unknown operators,
// wrong numbers of operands, and bodies that do not fit their node, each naming graph, node and
// operator.
package graph
