// Package cluster runs a whole Kubernetes on this machine from binaries that kube/e2e/build made:
// etcd, API server, scheduler and controller manager, and either this machine as a real node, with
// kubelet and containerd, or any number of nodes that kwok plays. All of it lives in one folder and
// ends with the program that started it.
//
// Meet first: [Start]; [Cluster.Node], [Cluster.Kwok]; [Client].
//
// Concurrency: a Cluster is for one goroutine, a Client for several.
//
// What it refuses: a machine on which the binaries are not there ([ErrNotBuilt]), and a real node
// where it has no rights to make one ([ErrNoNode]); what is missing is said.
package cluster
