package compute

// The optional interfaces of a [Kernel]. A planner asks for each by a type assertion and does
// without it where it is missing: a device whose kernels have none of them computes the same, with
// more copies and more memory.
//
//	interface    what it saves                             on the CPU implemented by
//	[InPlace]    memory: the output over an input          element-wise, norms, Softmax
//	[Moving]     copies: parts lie where the whole does    Concat, Split, Slice, Transpose, Expand
//	[Absorbing]  the constants that the packed copy holds  products, convolutions, recurrences
//	[Packing]    a second packed copy for other shapes     the same
//	[Parted]     time: weights packed by several workers   float32 products and convolutions
//	[Choosing]   time: ways that were measured (weir tune)  float32 and bfloat16 convolutions

// Packing is implemented by kernels whose packed copy may serve other kernels as well.
type Packing interface {
	// Packing identifies what Pack writes, of the kernels of this process: two kernels whose values
	// are equal write the same bytes. The value can be compared.
	Packing() any
}

// InPlace is implemented by kernels whose output 0 may be written over an input that nobody reads
// afterwards.
type InPlace interface {
	// InPlace lists such inputs, the best first. Each has as many bytes as output 0 when it is one,
	// and must then not be another operand of the call as well.
	InPlace() []int
}

// Moving is implemented by kernels that only move elements, such as Concat and Split.
type Moving interface {
	// Stretches lists the moves whose elements follow each other in input and output alike.
	Stretches() []Stretch
	// Without returns the kernel that leaves these moves out, nil when there is no other.
	Without(moves []int) Kernel
}

// Stretch is a move of bytes: those of an input from From on become those of an output from To on.
type Stretch struct {
	Move            int // its number among the kernel's
	In, Out         int
	From, To, Bytes int64
}

// Absorbing is implemented by kernels for whose constant inputs the packed copy stands in full:
// once it is there, their contents can be let go of.
type Absorbing interface {
	// Absorbed lists the constant inputs whose contents nobody but Pack reads: preparing goes by
	// their type and shape, and Bind and Run do not look at them.
	Absorbed() []int
}

// Parted is implemented by kernels whose packed copy can be written in parts, by several workers at
// the same time.
type Parted interface {
	// PackParts returns the number of parts, and how many floats of scratch writing one needs.
	PackParts() (n, scratch int)
	// PackPart writes one part of the copy, of which dst is the whole. What is in scratch does not
	// matter.
	PackPart(dst []byte, part int, scratch []float32)
}

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
