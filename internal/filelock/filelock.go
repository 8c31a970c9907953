// Package filelock takes files for a process until it ends, however it does: the kernel gives them
// back.
//
// Meet first: [Take].
//
// Concurrency: Take may be called by any number of goroutines; two of one process are two holders.
//
// What it refuses: systems without flock(2), where nothing would keep a second process away.
package filelock

import "errors"

// ErrTaken is the error where another holds the file.
var ErrTaken = errors.New("another process has it")
