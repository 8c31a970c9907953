// Package fulldisk lets a test see what a program does on a disk without room: see [Full]. It is
// used by tests only.
//
// Concurrency: the bound is the whole process's, so that a test that uses it must not run beside
// others of its process.
package fulldisk
