package conformance

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Expected is what is due of one case: a line of testdata/reference.txt.
type Expected struct {
	Name string
	// Operator is the only operator of the case's graph, such as "Conv" or "ai.onnx.ml:Scaler"; "" when it has several
	// nodes.
	Operator string
	Status   Status
	Reason   string // why it does not pass, for readers
}

// many stands in a list for the operator of a graph of several nodes.
const many = "-"

// ReadExpected reads a list of expectations, one a line: name, operator, status and, after a #, the reason. Lines that
// begin with # are comments.
func ReadExpected(r io.Reader) ([]Expected, error) {
	var all []Expected
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line, reason, _ := strings.Cut(s.Text(), "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("line %d: %q: want name, operator and status", n, s.Text())
		}
		e := Expected{f[0], f[1], Status(f[2]), strings.TrimSpace(reason)}
		if e.Operator == many {
			e.Operator = ""
		}
		all = append(all, e)
	}
	return all, s.Err()
}

// WriteExpected writes a list that [ReadExpected] reads. Reasons are cut at a line break.
func WriteExpected(w io.Writer, all []Expected) error {
	for _, e := range all {
		if e.Operator == "" {
			e.Operator = many
		}
		line := fmt.Sprintf("%s %s %s", e.Name, e.Operator, e.Status)
		if reason, _, _ := strings.Cut(e.Reason, "\n"); reason != "" {
			line += " # " + reason
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Numbers of onnx.proto3.
const (
	modelGraph = 7
	graphNode  = 1
	nodeType   = 4
	nodeDomain = 7
)

// Operator reads which operator the case's model has when its graph is one node, "" when it has several. Unlike
// onnx.Open it also reads models of operators and element types that weir does not have.
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

// parts returns the contents of a message's length-delimited fields of one number, up to the first damage.
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
