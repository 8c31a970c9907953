// Package pass rewrites graphs so that they compute the same with less work.
//
// Meet first: [Run] drives the passes over a graph, [Options] switches them, [Report] says what
// they did.
//
// Passes believe the types of a graph. Those of a graph from a file may be wrong: what is rewritten
// is the result of graph.Specialize, whose types hold for every run.
//
// Concurrency: Run owns the graph while it runs; different graphs may be rewritten at the same
// time.
//
// What it refuses: to change what a graph computes. A pass proposes a patch and the driver applies
// it, checks it when asked, and counts it, so that a wrong result is found by halving
// (Options.StopAfter).
package pass
