package scenario

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// asChild makes this test binary the command that runs a job in a process of its own.
func asChild(t *testing.T, how string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(childEnv, how)
	return []string{exe}
}

// TestProcesses runs three jobs in processes of their own: one on given data, one at nice 19, one
// that is broken.
func TestProcesses(t *testing.T) {
	child := asChild(t, "yes")
	dense := closedJob("dense", denseGraph(t), 50)
	dense.Given = map[string]*tensor.Tensor{"x": tensor.From(make([]float32, 16), 2, 8)}
	nice := closedJob("nice", vision(t, "mobilenetv2"), 3)
	nice.Class, nice.Arrival = share.Opportunistic, Arrival{Poisson: 1e5}
	bad := closedJob("bad", gatherGraph(t), 5)
	bad.Given = indices(8, 0)
	over := closedJob("over", denseGraph(t), 5)
	over.Memory = 1
	res := run1(t, &Scenario{Jobs: []Job{dense, nice, bad, over}},
		Options{Threads: 1, Compare: []Mode{Processes}, Child: child})
	p := res.Phases[0]
	if p.Mode != Processes || p.WallS <= 0 || len(p.Jobs) != 4 {
		t.Fatalf("the phase is %+v", p)
	}
	for i, want := range []struct {
		status string
		n      int64
	}{{StatusDone, 50}, {StatusDone, 3}, {StatusFailed, 0}, {StatusRefused, 0}} {
		j := p.Jobs[i]
		if j.Status != want.status || j.Iterations != want.n || int64(len(j.Latencies)) != want.n {
			t.Errorf("%s is %s after %d iterations and %d latencies: %s", j.Name, j.Status,
				j.Iterations, len(j.Latencies), j.Error)
		}
		if j.Name != res.Jobs[i].Name || j.Class != res.Jobs[i].Class ||
			j.PlanBytes != res.Jobs[i].PlanBytes {
			t.Errorf("in its process %+v, here %+v", j, res.Jobs[i])
		}
	}
}

// TestProcessesThatFail tells of children that never become ready, and of ones that give no result.
func TestProcessesThatFail(t *testing.T) {
	s := &Scenario{Jobs: []Job{closedJob("a", denseGraph(t), 5), closedJob("b", denseGraph(t), 5)}}
	o := Options{Threads: 1, Compare: []Mode{Processes}}
	if _, err := Run(t.Context(), s, o); !errors.Is(err, ErrScenario) {
		t.Errorf("no command: %v", err)
	}
	o.Child = []string{"/nonexistent/weir"}
	if _, err := Run(t.Context(), s, o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such command: %v", err)
	}
	o.Child = asChild(t, "broken")
	if _, err := Run(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), "job a") ||
		!strings.Contains(err.Error(), "no device") {
		t.Errorf("a child that dies: %v", err)
	}
	o.Child = asChild(t, "silent")
	res := run1(t, s, o)
	if j := res.Phases[0].Jobs[1]; j.Status != StatusFailed ||
		!strings.Contains(j.Error, "exit status 4") {
		t.Errorf("a child without a result: %s %q", j.Status, j.Error)
	}
	if j := res.Jobs[1]; j.Status != StatusDone {
		t.Errorf("the next phase: %s %s", j.Status, j.Error)
	}
}

func TestProcessesCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &Scenario{Duration: time.Minute, Jobs: []Job{closedJob("a", denseGraph(t), 0)}}
	o := Options{Threads: 1, Compare: []Mode{Processes}, Child: asChild(t, "yes")}
	o.Progress = func(stage string) {
		if strings.HasPrefix(stage, "together") {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}
	if _, err := Run(ctx, s, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestRunChildRefusesOrders gives the child's side orders that are none.
func TestRunChildRefusesOrders(t *testing.T) {
	for _, order := range []string{"", "x", "x\n", "{}\n", `{"scenario": "jobs: 3"}` + "\n",
		`{"scenario": "duration: 1s\njobs: [{name: a, model: none.onnx}]"}` + "\n"} {
		var out bytes.Buffer
		if err := RunChild(t.Context(), strings.NewReader(order), &out, nil); err == nil ||
			out.Len() > 0 {
			t.Errorf("%q: got %v and %q", order, err, out.String())
		}
	}
}
