package cpu

// Choices are ways of computing that measuring found the fastest on this machine, by problem (see
// [Choosing]). They take the place of what a cost model estimates. A way that a kernel does not
// have is passed over.
type Choices map[string]string

// Choosing is implemented by kernels that can compute the same in several ways.
type Choosing interface {
	// Problem identifies what is computed, as far as the time of a way depends on it, on one line
	// of text.
	Problem() string
	// Ways names the ways there are, the one that the cost model chooses first.
	Ways() []string
	// Way is the one that was chosen, and Measured reports whether [Request.Choices] did so.
	Way() string
	Measured() bool
}
