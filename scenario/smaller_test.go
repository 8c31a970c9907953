package scenario

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
)

// TestSmallerPlan: a job under a cap that the plan as it is does not fit, but one that computes a
// value again does, runs, and holds what that plan says.
func TestSmallerPlan(t *testing.T) {
	g, err := graph.Parse(`graph "wide" {
	opset "" 17
	input %x: float32[1,256]
	const %to: int64[2] = {256, 256}
	%a = Expand@13 (%x, %to)
	%b = Softmax@13 (%a) {axis=0}
	%c = Softmax@13 (%b) {axis=1}
	%d = MatMul@13 (%c, %b)
	%y = Add@14 (%d, %a)
	output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/model.onnx"
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	plans := keptPlans(t)
	of := closedJob("wide", nil, 3)
	of.Model = path
	whole, err := prepare(t.Context(), of, plans, kernels.Target(cpu.Discover()), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	of.Memory = share.Bytes(whole.need() - 200<<10)
	if err := whole.close(); err != nil {
		t.Fatal(err)
	}
	for again := range 2 {
		res, err := Run(t.Context(), &Scenario{Device: "cpu:0", Policy: "fair",
			Duration: 10 * time.Second, Jobs: []Job{of}}, Options{Threads: 1, Plans: plans})
		if err != nil {
			t.Fatal(err)
		}
		if j := &res.Jobs[0]; j.Status != StatusDone || j.MemoryPeakBytes > int64(of.Memory) ||
			j.MemoryPeakBytes != j.PlanBytes {
			t.Errorf("time %d: job %s is %s (%s): held %d bytes, planned %d, cap %v", again, j.Name,
				j.Status, j.Error, j.MemoryPeakBytes, j.PlanBytes, of.Memory)
		}
	}
}
