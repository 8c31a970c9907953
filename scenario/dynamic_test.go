package scenario

import "testing"

// TestDataDependentMemoryWithoutCap holds that a job which names no memory cap has room for values
// that no plan can count, and one whose plan counts everything has exactly that.
func TestDataDependentMemoryWithoutCap(t *testing.T) {
	loop := parseGraph(t, `graph "loop" {
  opset "" 17
  input %x: float32[8]
  const %m: int64[] = {5}
  %y: float32[8] = Loop@17 (%m, _, %x) {body=graph "body" {
    input %i: int64[]
    input %c: bool[]
    input %v: float32[8]
    %at: int64[1,?] = NonZero@17 (%v)
    %n: int64[2] = Shape@17 (%at)
    %f: float32[2] = Cast@17 (%n) {to=1}
    %s: float32[] = ReduceSum@17 (%f) {keepdims=0}
    %w: float32[8] = Add@17 (%v, %s)
    output %c
    output %w
  }}
  output %y
}`)
	for _, j := range []Job{closedJob("where", nonzeroGraph(t), 3), closedJob("loop", loop, 3),
		closedJob("dense", denseGraph(t), 3)} {
		res := run1(t, &Scenario{Jobs: []Job{j}}, Options{}).Jobs[0]
		if room := res.MemoryCapBytes > res.PlanBytes; res.Status != StatusDone ||
			res.Iterations != 3 || room == (j.Name == "dense") {
			t.Errorf("%s: %s, cap %d, plan %d: %s", j.Name, res.Status, res.MemoryCapBytes,
				res.PlanBytes, res.Error)
		}
	}
}
