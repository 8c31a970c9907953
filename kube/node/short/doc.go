// Package short makes the claim templates of pods that ask for a part of a GPU by annotations: the
// chart's admission policy has given such a pod a claim of a template whose name follows from what
// it asks for (dra.Short), and the cluster's own controller makes the claim once the template is
// there.
//
// One of it runs in a cluster. Pods that run do not need it; while it is away, new ones of this
// form wait.
package short
