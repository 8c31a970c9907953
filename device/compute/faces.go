package compute

// The optional interfaces of a [Kernel]. A planner asks for each by a type assertion and does
// without it where it is missing: a device whose kernels have none of them computes the same, with
// more copies and more memory.
//
//	interface    what it saves                             on the CPU implemented by
//	[InPlace]    memory: the output over an input          element-wise, norms, Softmax
//	[Renewing]   memory and copies of variables            optimizers
//	[Moving]     copies: parts lie where the whole does    Concat, Split, Slice, Transpose, Expand
//	[Absorbing]  the constants that the packed copy holds  products, convolutions, recurrences
//	[Packing]    a second packed copy for other shapes     the same
//	[Parted]     time: weights packed by several workers   float32 products and convolutions
//	[Choosing]   time: ways that were measured (weir tune)  convolutions, bfloat16 products

// Packing is implemented by kernels whose packed copy may serve other kernels as well.
type Packing interface {
	// Packing identifies what Pack writes, of the kernels of this process: two kernels whose values
	// are equal write the same bytes. The value can be compared.
	Packing() any
}

// InPlace is implemented by kernels whose output 0 may be written over an input that nobody reads
// afterwards.
type InPlace interface {
	// InPlace lists the inputs that output 0 may be written over, the best first. A planner may
	// choose one only if it has as many bytes as output 0 and is not another operand of the call as
	// well.
	InPlace() []int
}

// Renewing is implemented by kernels that compute the next values of several variables of a state
// from those they have, such as a weight and the moments of its optimizer.
type Renewing interface {
	// Renewing lists, for each output, the input that it may be written over where both are one
	// variable that no other operand of the call is.
	Renewing() []int
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

// Absorbing is implemented by kernels whose packed copy replaces constant inputs in full: once it
// is written, the contents of those inputs can be released.
type Absorbing interface {
	// Absorbed lists the constant inputs whose contents only Pack reads. Preparing the kernel
	// depends on their type and shape alone, and Bind and Run do not look at them.
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

// Choices maps a problem (see [Choosing]) to the name of the algorithm that was measured
// to be the fastest on this machine. A choice overrides what the cost model estimates; one that
// names an algorithm that the kernel does not have is ignored.
type Choices map[string]string

// Fewer is implemented by kernels whose algorithm may take fewer operations than the operator's
// definition has.
type Fewer interface {
	// Taken is the operations that the kernel takes at least, 0 where they are the definition's.
	Taken() int64
}

// Choosing is implemented by kernels that can compute the same by several algorithms.
type Choosing interface {
	// Problem identifies on one line of text what the kernel computes, in all respects on which the
	// time of an algorithm depends.
	Problem() string
	// Algorithms names those there are, the one that the cost model chooses first.
	Algorithms() []string
	// Algorithm is the one that was chosen, and Measured reports whether [Request.Choices] did so.
	Algorithm() string
	Measured() bool
}
