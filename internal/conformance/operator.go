package conformance

import (
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of onnx.proto3.
const (
	modelGraph = 7
	graphNode  = 1
	nodeType   = 4
	nodeDomain = 7
)

// Operator reads which operator the case's model has when its graph is one node, "" when it has
// several. Unlike onnx.Open it also reads models of operators and element types that weir does not
// have.
func (c *Case) Operator() (string, error) {
	model, err := os.ReadFile(c.Model)
	if err != nil {
		return "", err
	}
	var nodes [][]byte
	for _, g := range parts(model, modelGraph) {
		nodes = append(nodes, parts(g, graphNode)...)
	}
	if len(nodes) != 1 {
		return "", nil
	}
	name := ""
	for _, b := range parts(nodes[0], nodeType) {
		name = string(b)
	}
	for _, b := range parts(nodes[0], nodeDomain) {
		if d := string(b); d != "" && d != "ai.onnx" {
			name = d + ":" + name
		}
	}
	return name, nil
}

// parts returns the contents of a message's length-delimited fields of one number, up to the first
// damage.
func parts(b []byte, number protowire.Number) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		v := protowire.ConsumeFieldValue(num, typ, b[n:])
		if v < 0 {
			break
		}
		if num == number && typ == protowire.BytesType {
			x, _ := protowire.ConsumeBytes(b[n:])
			out = append(out, x)
		}
		b = b[n+v:]
	}
	return out
}
