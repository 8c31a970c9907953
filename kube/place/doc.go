// Package place chooses nodes and devices for the requests of a cluster. It knows nothing of
// Kubernetes: the simulator of clusters and a scheduler plug-in use it alike.
//
// Meet first: [NewCluster] makes a [Cluster] of nodes; [Cluster.Place] gives a [Request] what it
// asks for, [Cluster.Release] takes it back. [Policies] are the rules to choose by, one a file.
//
// A choice depends on nothing but what is free, the policy and the order of the nodes, which
// decides among equals; the policy random draws numbers from a source that it is given. What is not
// free is never given: one function takes from a node, and it looks first.
//
// Scores are kept in an index and computed again only where a node has changed, when a request of
// the same shape comes. Options.Plain computes all of them each time, as the definition says; tests
// hold the two to the same choices.
//
// Units are thousandths of a device; memory is in bytes, CPU in thousandths of a core.
//
// Concurrency: a Cluster is for one goroutine at a time.
//
// What it refuses: requests, nodes and workloads that cannot be, with what is wrong and the bounds.
// A request that fits nowhere is an error of kind [ErrNoRoom], which says what the nodes want.
package place
