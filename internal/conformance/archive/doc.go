// Package archive finds and unpacks the data that tests use and that the project does not hold.
//
// Meet first: [BackendTests] gives the folder of the ONNX project's backend tests, unpacked once a
// machine; [Unpacked] does so for any .tar.xz, and [Unpack] unpacks one in pure Go.
//
// The data is looked for in the folder that the environment variable WEIR_ONNX_TESTDATA names and
// in ../shared/data next to the repository; where neither has it,
// internal/conformance/peer/cases.py fetches it from a package registry. Tests that need it fail
// without it, and skip where the variable says "off". The unpacked copy lies in the user's cache
// folder under a name that holds the archive's hash.
//
// Concurrency: any number of processes may ask at once; each unpacks to a folder of its own and
// renames it into place.
//
// What it refuses: archives with paths that leave the folder, with links or devices, or larger than
// [MaxBytes] when unpacked.
package archive
