// Gen writes what the shim derives from calls.tab, the one list of the CUDA driver's entry points:
// the wrappers that the library exports, the tables behind dlsym and cuGetProcAddress, the types
// that the signatures need, the coverage report, and an archive of all but the last, which is what
// weir carries of them.
//
//	go generate ./internal/shim                        write the derived files again
//	go run ./internal/shim/gen -import DIR [DIR...]
//		add to calls.tab what CUDA headers in DIR declare
//
// A call that the list does not name is not wrapped: a program that looks it up gets the driver's
// own function. Importing a newer header appends such calls as pass-through rows, and leaves the
// class and the handler of known rows as they are.
//
// The types to meet first are [Table] and [Header]. Nothing here is safe for concurrent use.
package main
