// Package pass rewrites graphs so that they compute the same with less work.
//
// Meet first: [Run] drives the passes over a graph, [Options] switches them, [Report] says what
// they did.
//
// Passes rely on the types of a graph. Since types in a file may be wrong, callers run the passes
// on the result of graph.Specialize, whose types hold for every run.
//
// Concurrency: Run owns the graph while it runs; different graphs may be rewritten at the same
// time.
//
// What it refuses: to change what a graph computes. A pass only proposes patches; the driver
// applies them, counts them and, when asked, checks each. A patch that makes a result wrong can
// therefore be found by bisection: run with fewer and fewer patches (Options.StopAfter).
package pass
