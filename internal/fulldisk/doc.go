// Package fulldisk lets a test see what a program does on a disk without room: [Elsewhere] gives
// the test a process of its own, and [Full] has that process's files end. It is used by tests only.
//
// Concurrency: the bound is the whole process's, which runs that one test.
package fulldisk
