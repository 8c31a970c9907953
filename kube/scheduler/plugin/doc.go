// Package plugin is weir's plug-in of the stock scheduler: package live's choices, which are
// package place's, for pods that ask for parts of devices by claims.
//
// One plug-in, [Name], stands in for the scheduler's own DynamicResources, which it has inside. For
// a pod that can be chosen for it finds the node and the devices; the inner plug-in is then shown
// nothing but those devices, and allocates as it always does: by selectors, and against an account
// of what those devices have given. What package place has no words for (claims for devices of
// other drivers, several parts in one pod, alternatives) goes to the inner plug-in as if there were
// no other.
//
// Beside that: queues fair between namespaces (QueueSort), gangs (PreEnqueue, PreFilter, Permit)
// and preemption of opportunistic claims (PostFilter). docs/kubernetes.md has what users write.
//
// Concurrency: the framework calls the plug-in from several goroutines, informers from others. One
// lock guards what is known of the cluster, and is never held while the framework is called.
package plugin
