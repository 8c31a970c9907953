// Package live is a cluster as a scheduler sees it: nodes come, change and go by name, pods and
// claims hold parts of them whoever has placed them, and what is asked for next is chosen by
// package place, with its policies and no other.
//
// Meet first: [New] makes a [Cluster]; [Cluster.SetNode] and [Cluster.Hold] tell it what is, with
// [Cluster.Drop] when it is no more; [Cluster.Choose] says where a request would go.
// [Cluster.Gang] holds seats for all of some requests or for none. [Cluster.Preempt] says who would
// have to go for a request, and [Cluster.Promise] keeps for it what they leave. [Fair] orders
// requests of several namespaces.
//
// What it is told is believed, as it has already happened: a node with more on it than it has takes
// nothing new until that has changed. What it chooses itself is free, or it is not chosen.
//
// Choices depend on the names of nodes, what is held and the order in which that was told, never on
// the order of maps or on time.
//
// It knows nothing of Kubernetes; kube/scheduler is the plug-in that does. A Cluster and a Fair are
// for one goroutine at a time.
package live
