// Package plugin puts weir's driver of devices (package kube/dra) behind the kubelet's plug-in API
// for Dynamic Resource Allocation: it publishes a node's devices as ResourceSlices and prepares the
// claims of its pods, with Kubernetes' own helper (k8s.io/dynamic-resource-allocation).
//
// Meet first: [Run].
//
// Concurrency: Run is one driver, and there is one a node at a time.
//
// What it refuses: what kube/dra does. The kubelet shows the reason as an event of the pod and
// tries again.
package plugin
