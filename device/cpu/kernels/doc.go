// Package kernels binds operators to the CPU's fast loops: there is one file for each family of
// operators, and the loops themselves are in kernel/....
//
// Meet first: [Target], whose Prepare turns a call of static types, a compute.Request, into the
// fastest kernel that there is; and the tables of builders at the top of each file, which say what
// operators it serves, of which types and attributes.
//
// Concurrency: a kernel is immutable and shared by all sessions of a plan. It cuts its work into
// chunks, which the pool that runs it hands to several workers.
//
// What it refuses: nothing that the reference evaluation takes. For types and attributes outside
// what models use Prepare has no kernel, which is no error; a kernel refuses data that the operator
// forbids, such as an index outside its axis.
package kernels
