// Package shm lets clients on the same machine give a server values in memory that both have: POSIX
// shared memory, which Linux has as files of /dev/shm (shm_overview(7)).
//
// Meet first: [Regions], in which a client registers parts of such memory under names, and what
// reads and writes them, [Region.Read] and [Region.Write].
//
// Nothing is mapped. What a client has in shared memory may change, or be cut off, at any moment:
// so it is read once into memory of the server's own, and checked there, and a file that has become
// shorter is an error and no fault of the process.
//
// Names belong to the account that registered them, and memory that one account has registered is
// no other's. A file is taken only if its owner is the user that the server runs as, or if all
// users may read and write it: a client reaches nothing through the server that it could not reach
// itself.
//
// Concurrency: every method may be called by any number of goroutines. A region that was
// unregistered stays until those that use it are done.
//
// What it refuses: names that do not begin as the server's administrator said, that contain a
// second slash, or lead elsewhere; parts that are not within the memory; more than [Max] regions an
// account, or than a fourth of the files that the process may open; and, on other systems than
// Linux, all ([ErrUnsupported]).
package shm
