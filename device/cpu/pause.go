//go:build amd64 || arm64

package cpu

// pause tells the processor n times (n > 0) that this thread spins: it saves power and leaves the
// core's other hardware thread the pipeline. The call is not preemptible, so n stays small.
//
//go:noescape
func pause(n uint32)
