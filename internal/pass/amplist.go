package pass

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// AmpList is one of the three lists on which automatic mixed precision has every operator.
type AmpList string

// The lists.
const (
	// AmpAllow holds the products, whose kernels multiply in bfloat16 and add up in float32.
	AmpAllow AmpList = "allow"
	// AmpInfer holds operators that move elements, or select some of them by size: rounding all
	// elements before them gives the same as rounding their results, so that they go along with the
	// products around them.
	AmpInfer AmpList = "infer"
	// AmpDeny holds all others, whose results lose digits when their operands do.
	AmpDeny AmpList = "deny"
)

// ampMoves are ONNX's operators that move the elements of input 0. The number says which other
// inputs have their elements moved, too: -1 stands for all of them, 0 for none.
var ampMoves = map[string]int{
	"Concat": -1, "DepthToSpace": 0, "Dropout": 0, "Expand": 0, "Flatten": 0, "Gather": 0,
	"GatherElements": 0, "GatherND": 0, "Identity": 0,
	"Reshape": 0, "Slice": 0, "SpaceToDepth": 0, "Split": 0, "Squeeze": 0, "Tile": 0,
	"Transpose": 0, "Unsqueeze": 0,
}

// ampSelects are ONNX's operators that take the largest or smallest of some elements, or zero.
var ampSelects = map[string]bool{
	"Abs": true, "GlobalMaxPool": true, "Max": true, "MaxPool": true, "Min": true, "Neg": true,
	"ReduceMax": true, "ReduceMin": true, "Relu": true,
}

// ampList returns the list of a node, and why it is on it.
func ampList(n *graph.Node) (list AmpList, why string) {
	_, moves := ampMoves[n.Type]
	switch {
	case isPixelProduct(n):
		return AmpAllow, "a product of pixels: multiplies in bfloat16, adds up in float32"
	case isPixelConv(n):
		return AmpAllow, "a depthwise convolution of pixels: multiplies and adds up in float32"
	case isProduct(n):
		if t := n.In[0].Type.DType; t != tensor.Float32 && savedOperand(n) != n.In[0] {
			return AmpDeny, fmt.Sprintf("its operands are %v", t)
		}
		return AmpAllow, "a product: multiplies in bfloat16, adds up in float32"
	case staysPixels(n) && (n.Domain == "" && moves || n.Type == "NhwcMaxPool"):
		return AmpInfer, "moves or selects pixels, which stay in bfloat16"
	case staysPixels(n):
		return AmpDeny, "arithmetic by element of pixels, which it rounds to bfloat16"
	case len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Type.DType != tensor.Float32:
		return AmpDeny, "its result is not float32"
	case n.Domain == "" && moves:
		return AmpInfer, "moves elements: rounding commutes with it"
	case n.Domain == "" && ampSelects[n.Type] && len(n.Out) == 1:
		return AmpInfer, "selects elements by size: rounding commutes with it"
	}
	return AmpDeny, denyWhy(n)
}

// ampSums are operators that add up many elements, whose sums would lose what is small beside them.
var ampSums = map[string]bool{
	"AveragePool": true, "BatchNormalization": true, "CumSum": true, "GlobalAveragePool": true,
	"GroupNormalization":    true,
	"InstanceNormalization": true, "LayerNormalization": true, "LogSoftmax": true,
	"LpNormalization": true, "ReduceL1": true, "ReduceL2": true,
	"ReduceLogSumExp": true, "ReduceMean": true, "ReduceSum": true, "ReduceSumSquare": true,
	"RMSNormalization": true, "Softmax": true,
}

// denyWhy says why a node that is on neither of the other lists stays float32.
func denyWhy(n *graph.Node) string {
	switch {
	case len(n.Bodies()) > 0:
		return "its bodies are rewritten by themselves"
	case len(n.In) > 0 && n.In[0] != nil && n.In[0].Type.DType != tensor.Float32:
		return fmt.Sprintf("its operands are %v", n.In[0].Type.DType)
	case addsUp(n):
		return "adds up many elements"
	}
	return "arithmetic by element: bfloat16 takes digits and saves no multiplication"
}

// addsUp reports whether a node is on the list of sums.
func addsUp(n *graph.Node) bool { return n.Domain == "" && ampSums[n.Type] }

// normalises reports whether a node on the list of sums gives an element for each of its operand,
// which sums over all only scale and shift: what that has lost its result has lost, too.
func normalises(n *graph.Node) bool {
	return addsUp(n) && (n.Type == "Softmax" || strings.HasSuffix(n.Type, "Normalization"))
}

// isProduct is the list of operators whose kernels multiply in bfloat16.
func isProduct(n *graph.Node) bool {
	if n.Domain != "" && n.Domain != op.FusedDomain || len(n.In) < 2 {
		return false
	}
	return isAttention(n) || len(n.Out) == 1 && (multiplies[n.Type] || isConvWeights(n))
}

// multiplies are the products that ONNX has, too.
var multiplies = map[string]bool{"Conv": true, "ConvTranspose": true, "Gemm": true, "MatMul": true}

// isConvWeights reports whether a node is the gradient of a convolution's weights.
func isConvWeights(n *graph.Node) bool {
	return n.Domain == op.FusedDomain && n.Type == op.ConvWeightsGradient
}

// isAttention reports whether a node is an attention or the gradient of one, which has its operands
// and more.
func isAttention(n *graph.Node) bool {
	return n.Domain == op.FusedDomain &&
		(n.Type == "Attention" || n.Type == op.AttentionGradient)
}

// multiplied are the inputs of a product that it multiplies by others.
func multiplied(n *graph.Node) []int {
	if n.Domain == op.FusedDomain && n.Type == op.AttentionGradient {
		return []int{op.FusedAttentionQ, op.FusedAttentionK, op.FusedAttentionV,
			op.AttentionGradientDY}
	}
	return []int{0, 1}
}

// products are the results of a product that are sums of products: others say how it came to them.
func products(n *graph.Node) []*graph.Value {
	if n.Type == "Attention" {
		return n.Out[:1]
	}
	return n.Out
}

// carried returns the inputs of a node of AmpInfer whose elements are in its result.
func carried(n *graph.Node) []*graph.Value {
	if k, moves := ampMoves[n.Type]; moves && k == 0 {
		return n.In[:1]
	}
	if n.Type == "ReduceMax" || n.Type == "ReduceMin" {
		return n.In[:1]
	}
	return n.In
}
