package scenario

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// mix is a latency job, a standard one with a guarantee and a limit, and an opportunistic one, of a
// number of iterations each.
func mix(t testing.TB, iterations int64) *Scenario {
	request := closedJob("request", denseGraph(t), iterations)
	request.Share = share.Share{Class: share.Latency, Compute: 0.3}
	request.Arrival, request.Target = Arrival{Poisson: 2000}, 50*time.Millisecond
	serve := closedJob("serve", vision(t, "mobilenetv2"), iterations)
	serve.Share = share.Share{Compute: 0.4, Limit: 0.9}
	batch := closedJob("batch", vision(t, "resnet50"), iterations)
	batch.Share = share.Share{Class: share.Opportunistic}
	return &Scenario{Device: "cpu:0", Seed: 1, Jobs: []Job{request, serve, batch}}
}

// TestEveryPolicyLive runs all policies that the device can enforce on the same jobs, live, and
// replays what was recorded: the core decides the same again, no policy makes a mistake, and every
// job gets to its end.
func TestEveryPolicyLive(t *testing.T) {
	recordings := map[string]*bytes.Buffer{}
	iterations := int64(60)
	if testing.Short() { // each policy decides as many kinds of turns, fewer times
		iterations = 15
	}
	s := mix(t, iterations)
	r, err := newRun(t.Context(), s, Options{Threads: 2, Record: func(policy string) io.Writer {
		recordings[policy] = &bytes.Buffer{}
		return recordings[policy]
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for _, row := range policy.All() {
		t.Run(row.Name, func(t *testing.T) {
			if err := seat.Can(r.Machine).Enforces(row.Name, row.Needs, s.Device); err != nil {
				t.Skip(err)
			}
			testLive(t, r, row)
			k, err := r.sharing(row.Name)
			if err != nil {
				t.Fatal(err)
			}
			again, err := core.New(k)
			if err != nil {
				t.Fatal(err)
			}
			n, err := core.Replay(again, recordings[row.Name])
			if err != nil || n == 0 {
				t.Errorf("%d events replayed: %v", n, err)
			}
			if faults, first := again.Faults(); faults != 0 {
				t.Errorf("%d mistakes, the first: %v", faults, first)
			}
		})
	}
}

func mustPolicy(t testing.TB, spec string) share.Policy {
	t.Helper()
	p, err := policy.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testLive runs the jobs under one policy and holds them to what they were promised whatever it is.
func testLive(t *testing.T, r *run, row policy.Row) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ph, err := r.phase(ctx, Shared, row.Name, r.indices())
	if err != nil {
		t.Fatal(err)
	}
	used := 0.0
	_, admits := mustPolicy(t, row.Name).(share.Admitter)
	for i, j := range ph.Jobs {
		if j.Status == StatusRefused && admits {
			continue // by the policy's own rule
		}
		if j.Status != StatusDone || j.Iterations != r.s.Jobs[i].Iterations {
			t.Errorf("job %s: %s after %d iterations: %s", j.Name, j.Status, j.Iterations, j.Error)
		}
		used += j.DeviceSeconds
	}
	if used > ph.WallS {
		t.Errorf("jobs used %.4g s of a device in %.4g s", used, ph.WallS)
	}
}
