// Package dra is what a driver of Kubernetes' Dynamic Resource Allocation does for weir, without
// Kubernetes' libraries: it describes a node's devices, reads what a claim was given and wants, has
// the node's agent keep a job for it, and writes how a container comes into that job (Container
// Device Interface, github.com/cncf-tags/container-device-interface SPEC.md, version 0.6.0). The
// nested module kube/node puts it behind the kubelet's plug-in API.
//
// Meet first: [Driver], whose Prepare and Unprepare are the kubelet's; [Claim]; [Parameters].
//
// Concurrency: a Driver is for several goroutines; all else are values.
//
// What it refuses: claims that ask for more devices than one a request, for a share that
// contradicts itself, or for devices that are not there, with an error that says what to write
// instead. What was given out stays known over a kill at any moment: a claim is written down
// before the agent is asked, and forgotten after the agent has let go.
package dra
