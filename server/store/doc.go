// Package store keeps what a server must not forget: one SQLite file, and blobs by their digest
// beside it, in one folder that one process writes.
//
// Meet first: [Open], [Store.Write] and [Store.Read], which run a transaction; [Room], by which a
// package brings tables of its own; and [Blobs] for what is too large for a row.
//
// # What holds
//
// Once Write returns nil, what it wrote is there after the process is killed and after power is
// lost, all of it; before, all or nothing of it is. The file is in WAL mode with synchronous FULL,
// so a commit waits for the disk. A blob is written aside, synced and renamed, and its folder is
// synced, before [Blobs.Put] returns; a row that names it is written after that.
//
// A file that is damaged is an error ([ErrDamaged]) and stays as it is: weir never makes an empty
// state of one that it cannot read.
//
// Concurrency: every method may be called by any number of goroutines. Writes run one after
// another; reads see the state as it was when they began, and neither waits for the other.
//
// What it refuses: a second process that writes ([ErrRunning]), a file of a newer weir
// ([ErrNewer]), a folder in which a restore was interrupted ([ErrRestoring]), and rows that a
// constraint forbids ([ErrExists] where there is such a row already).
package store
