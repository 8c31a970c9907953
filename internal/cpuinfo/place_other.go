//go:build !linux || !amd64 || noasm

package cpuinfo

// Place returns -1: the processor is not to be had without a system call here.
func Place() int { return -1 }
