package compute

import (
	"fmt"

	"github.com/weirgpu/weir/device"
)

// Target is what graphs are compiled for: a device as the passes and the planner see it. It is
// immutable and safe for concurrent use.
type Target interface {
	// Info describes the device.
	Info() device.Info
	// Identity names, on one line, all that Prepare and Features depend on: plans that were kept
	// for one target serve any other of the same identity. It may change once, when a kernel that
	// Prepare makes is the first to want instructions that the system then refuses: nothing was
	// packed for those before.
	Identity() string
	// Features says what the device can do, and what that costs, so that passes choose forms which
	// it has kernels for.
	Features() Features
	// Prepare returns the fastest kernel that the device has for the call, nil when it has none.
	// It fails when the operator forbids the call.
	Prepare(r *Request) (Kernel, error)
}

// Features are what passes ask about a device. The zero value is a device that has nothing but the
// operators of ONNX in single precision.
type Features struct {
	// Remote says that the host cannot address the memory of the device. Its kernels are bound to
	// Places ([Binding]), and what it has no kernel for runs on the host, between copies.
	Remote bool
	// BF16 says that there are instructions for products of bfloat16; how fast they are says
	// Costs.BF16Rate.
	BF16 bool
	// NHWC says that there are kernels for images of bytes with their channels in the last axis.
	NHWC bool
	// FastBytes says that products of bytes are so much faster than those of float32 that it pays
	// to round an image to integers of 8 bits for one, and FastWords that it does to round it to
	// integers of 16 bits for two.
	FastBytes, FastWords bool
	// Pixels says that there are kernels for images of bfloat16 with their channels in the last
	// axis.
	Pixels *Asked
	// Costs are those of the kernels.
	Costs Costs
}

// Asked is something that a device is asked for once a graph wants it; nil is what it lacks.
type Asked struct{ ask func() bool }

// Ask is something that a device has where ask says so.
func Ask(ask func() bool) *Asked { return &Asked{ask} }

// Yes asks.
func (a *Asked) Yes() bool { return a != nil && a.ask() }

// String says whether there is something to ask for: it does not ask.
func (a *Asked) String() string {
	if a == nil {
		return "no"
	}
	return "asked"
}

// Costs compare ways of computing on a device.
type Costs struct {
	// Rounding is what rounding one element to bfloat16 as it is packed costs, in multiplications
	// of a float32 kernel.
	Rounding float64
	// BF16Rate is how many times as fast as in float32 products are in bfloat16; nil stands for 2.
	// It belongs to the kind of processor that Identity names.
	BF16Rate *Rate
	// BF16Short is the same of products of ShortSteps steps of K, whose results take longer to
	// finish than to multiply; nil where that takes bfloat16 no longer than float32, of which one
	// result takes as long to finish as Finishing multiplications.
	BF16Short             *Rate
	ShortSteps, Finishing int
	// TiledWeights and TiledPixels say when a 3 x 3 convolution is faster in transformed tiles of
	// float32 (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016) than as a
	// product of bfloat16: for at most TiledWeights pairs of an input and an output channel, and at
	// least TiledPixels pixels of an output image. With TiledWeights 0 it never is.
	TiledWeights, TiledPixels int
	// SharedQueries is the number of queries from which the kernel of attention rounds keys for
	// several of them together.
	SharedQueries int
}

// WithFeatures is t with other features, such as for a test of what passes make of them.
func WithFeatures(t Target, f Features) Target { return &altered{t, f} }

type altered struct {
	Target
	features Features
}

func (a *altered) Features() Features { return a.features }

func (a *altered) Identity() string {
	return fmt.Sprintf("%s %+v", a.Target.Identity(), a.features)
}
