package pass

import "slices"

// Info describes one pass.
type Info struct {
	Name string
	// Doc says in one line what the pass does.
	Doc string
	// Portable tells whether what comes out is still plain ONNX.
	Portable bool
}

// phase groups passes that are repeated together until none finds anything, before the next phase
// begins.
type phase int

const (
	simplify  phase = iota // fewer nodes, same operators
	recognise              // operators that exporters have taken apart
	fuse                   // operators of weir that do the work of several
	number                 // the form of numbers
	phases
)

// entry is one row of the table of passes.
type entry struct {
	Info
	phase phase
	// start begins one sweep over one graph.
	start func(*scope) rule
}

// ahead are the passes of weir's own forms that run for [Options].Ahead: they keep others from
// copying weights.
var ahead = []string{"nbits", "qdq", "transposed"}

// passes is the order in which the passes of a phase run.
var passes = []entry{
	{Info{"nbits", "multiply by weights of four bits as they are", false}, simplify, startNBits},
	{Info{"expand", "write operators of com.microsoft in ONNX's own", false}, simplify,
		startExpand},
	{Info{"capture", "move constants into bodies and drop unused captures", true}, simplify,
		startCapture},
	{Info{"qdq", "make products between quantised values products of integers", false}, simplify,
		startQDQ},
	{Info{"transposed", "multiply by weights that are stored transposed as they are", false},
		simplify, startTransposed},
	{Info{"fold", "compute what depends on constants only, and take branches that are certain",
		true}, simplify, startFold},
	{Info{"dead", "remove nodes whose results nobody reads", true}, simplify, startDead},
	{Info{"identity", "remove operators that change nothing", true}, simplify, startIdentity},
	{Info{"view", "merge chains of reshapes and transposes", true}, simplify, startView},
	{Info{"sequence", "take apart sequences and optionals of known values", true}, simplify,
		startSequence},
	{Info{"cse", "compute equal expressions once", true}, simplify, startCSE},
	{Info{"layernorm", "recognise layer normalisation", true}, recognise, startLayerNorm},
	{Info{"gelu", "recognise Gaussian error linear units", true}, recognise, startGelu},
	{Info{"swish", "recognise SiLU and hard swish", true}, recognise, startSwish},
	{Info{"attention", "recognise scaled dot-product attention", false}, recognise, startAttention},
	{Info{"scaleshift", "put arithmetic on channels into the batch normalisation before it", true},
		recognise, startScaleShift},
	{Info{"batchnorm", "put batch normalisation into the weights of convolutions", true}, recognise,
		startBatchNorm},
	{Info{"channel", "put arithmetic on channels into the weights of convolutions", true},
		recognise, startChannel},
	{Info{"inputscale", "put arithmetic on input channels into the weights of convolutions", true},
		recognise, startInputScale},
	{Info{"grid", "round floats to the steps of integers without making integers of them", false},
		fuse, startGrid},
	{Info{"turned", "pack weights that gradients of convolutions turn around as they are", false},
		fuse, startTurned},
	{Info{"bias", "make what is added to a matrix product its bias", false}, fuse, startBias},
	{Info{"residual", "add a residual branch inside the convolution", false}, fuse, startResidual},
	{Info{"activation", "apply activations inside convolutions and matrix products", false}, fuse,
		startActivation},
	{Info{"chain", "round and compute element by element in one go", false}, number, startChain},
	{Info{"nhwc", "lay out images of bytes with their channels in the last axis", false}, number,
		startNHWC},
	{Info{"amp", "multiply in bfloat16 where that pays, when asked to", false}, number, startAmp},
	{Info{"pixels", "keep images in bfloat16 between convolutions, channels last", false}, number,
		startPixels},
	{Info{"ampround", "round products to float16, when asked to", false}, number, startAmpRound},
	{Info{"ampcancel", "remove casts that undo each other", true}, number, startAmpCancel},
	{Info{"ampsave", "keep what training reads again in 16 bits meanwhile, when asked to", false},
		number, startAmpSave},
	{Info{"ampread", "read what has waited in 16 bits as it lies, when asked to", false}, number,
		startAmpRead},
}

// constraint says that one pass must run before another, in an earlier phase or earlier in the same
// one.
type constraint struct{ first, then, why string }

// constraints is the reason of the order of passes.
var constraints = []constraint{
	{"qdq", "fold", "folding takes quantised weights from their scale, after which their product " +
		"is one of floats"},
	{"qdq", "grid", "products of integers want the integers"},
	{"grid", "activation", "numbers are rounded inside the product"},
	{"transposed", "fold", "folding the transpose copies the weights, which may be an embedding " +
		"that others read"},
	{"nbits", "expand", "expanding makes floats of the weights"},
	{"expand", "fold", "definitions bring shape arithmetic and constants that fold"},
	{"expand", "cse", "definitions of neighbours compute the same masks and positions"},
	{"capture", "fold", "a node of a body folds only once the constants that it captures are in " +
		"the body"},
	{"fold", "identity", "whether an operator changes nothing is told by its constant operands"},
	{"fold", "view", "a reshape can take over from another only when its shape is a constant"},
	{"fold", "sequence", "a value of a sequence is known only at a constant position"},
	{"fold", "cse", "equal constants are found by their contents, so they must have been computed"},
	{"cse", "layernorm", "exporters write x - mean(x) twice, and the pattern wants one"},
	{"cse", "batchnorm", "a convolution written twice would look as if it had two readers, each " +
		"with its own normalisation"},
	{"dead", "layernorm", "patterns want values without other readers, dead ones included"},
	{"scaleshift", "batchnorm",
		"weights of a convolution are copied once, however much follows its normalisation"},
	{"layernorm", "scaleshift", "the products and sums of a pattern belong to it first"},
	{"gelu", "scaleshift", "the products and sums of a pattern belong to it first"},
	{"swish", "scaleshift", "the products and sums of a pattern belong to it first"},
	{"layernorm", "channel", "the products and sums of a pattern belong to it first"},
	{"gelu", "channel", "the products and sums of a pattern belong to it first"},
	{"swish", "channel", "the products and sums of a pattern belong to it first"},
	{"fold", "attention", "scales are constants once the head size is known"},
	{"view", "attention", "two transposes of keys are one once they are merged"},
	{"attention", "bias", "a mask that is a vector would become the bias of the product of " +
		"queries and keys"},
	{"gelu", "inputscale", "the products and sums of a pattern belong to it first"},
	{"swish", "inputscale", "the products and sums of a pattern belong to it first"},
	{"channel", "inputscale", "between two convolutions the first takes the arithmetic whatever " +
		"the padding of the second"},
	{"inputscale", "residual",
		"weights change only as long as nothing follows them inside the convolution"},
	{"inputscale", "activation",
		"weights change only as long as nothing follows them inside the convolution"},
	{"batchnorm", "residual", "weights change only as long as nothing follows them inside the " +
		"convolution"},
	{"channel", "residual", "weights change only as long as nothing follows them inside the " +
		"convolution"},
	{"channel", "activation", "weights change only as long as nothing follows them inside the " +
		"convolution"},
	{"swish", "activation", "a sigmoid that is part of a gate must not go into the convolution " +
		"before it"},
	{"gelu", "activation", "what is recognised can be applied inside the product"},
	{"bias", "activation", "the bias comes before the activation"},
	{"residual", "activation", "the sum comes before the activation"},
	{"amp", "pixels", "which convolutions multiply in bfloat16 is known"},
	{"amp", "ampsave", "a value loses nothing in 16 bits where products round it anyway"},
	{"ampsave", "ampread", "what has waited is widened first"},
	{"ampround", "ampcancel", "what one product rounds another reads"},
	{"ampround", "ampsave", "a value is in 16 bits already where a product has rounded it"},
	{"fold", "amp", "a constant operand is rounded once, so whether it is one decides what " +
		"rounding costs"},
}

// All lists the passes in their order.
func All() []Info {
	out := make([]Info, len(passes))
	for i, e := range passes {
		out[i] = e.Info
	}
	return out
}

// Names lists the names of the passes in their order.
func Names() []string {
	out := make([]string, len(passes))
	for i, e := range passes {
		out[i] = e.Name
	}
	return slices.Clip(out)
}
