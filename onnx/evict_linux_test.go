package onnx

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// residentFile is the number of bytes of mapped files in this process's memory (proc_pid_statm(5)).
func residentFile(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[2])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestEvict follows the pages of a constant out of memory and back, in the model's file and in a
// file of external data.
func TestEvict(t *testing.T) {
	for name, inline := range map[string]int64{"inline": 1 << 30, "external": 1 << 10} {
		t.Run(name, func(t *testing.T) { testEvict(t, inline) })
	}
}

func testEvict(t *testing.T, inline int64) {
	const size = 16 << 20
	weights := make([]float32, size/4)
	for i := range weights {
		weights[i] = float32(i)
	}
	g, err := graph.Parse(`graph "large" {
		input %x: float32[1]
		const %w: float32[1] = {0}
		%y = Add@17 (%x, %w)
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	g.Nodes[0].In[1] = graph.NewConst("w", tensor.From(weights, len(weights)))
	g.Nodes[0].Out[0].Type = g.Nodes[0].In[1].Type
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := WriteFile(path, g, WriteOptions{MaxInline: inline}); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c := m.Graph.Nodes[0].In[1]
	read := func() {
		t.Helper()
		for i, v := range tensor.As[float32](c.Const()) {
			if v != float32(i) {
				t.Fatalf("element %d is %g", i, v)
			}
		}
	}
	for _, what := range []*tensor.Tensor{c.Const(), nil} {
		read()
		before := residentFile(t)
		m.Evict(what)
		if left := before - residentFile(t); left < size*3/4 {
			t.Errorf("%d of %d bytes left memory", left, size)
		}
	}
	read()
	own := tensor.From([]float32{1, 2, 3}, 3)
	m.Evict(own)
	m.Evict(&tensor.Tensor{})
	read()
	if tensor.As[float32](own)[2] != 3 {
		t.Error("memory that is not the model's has changed")
	}
}
