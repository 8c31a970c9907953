package scenario

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// TestForecast: a job says of its iterations, before any has run, what its plan says, and a larger
// model more than a smaller; and that it fills the cores that it does.
func TestForecast(t *testing.T) {
	whole, err := zoo.New("resnet50", zoo.Options{Seed: 1, Resolution: 64})
	if err != nil {
		t.Fatal(err)
	}
	jobs := []Job{closedJob("dense", denseGraph(t), 1),
		closedJob("small", vision(t, "mobilenetv2"), 1),
		closedJob("large", vision(t, "resnet50"), 1), closedJob("whole", whole, 1)}
	jobs[1].Target = 20 * time.Millisecond
	r, err := newRun(t.Context(), &Scenario{Device: "cpu:0", Jobs: jobs}, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	stage, err := r.newStage(&Phase{}, Shared, "fair")
	if err != nil {
		t.Fatal(err)
	}
	defer stage.close()
	before := time.Duration(0)
	for i, p := range r.jobs {
		stage.add(t.Context(), p, i)
		f := stage.tenants[i].admit.Status().Next
		if f.Time <= before || f.Bandwidth <= 0 || f.Bandwidth > 1 {
			t.Errorf("%s: forecast %+v, the smaller model before it %v", p.spec.Name, f, before)
		}
		if f.Ephemeral != share.Bytes(p.plan.ArenaBytes) || f.Target != jobs[i].Target {
			t.Errorf("%s: forecast %+v, the plan has an arena of %d", p.spec.Name, f,
				p.plan.ArenaBytes)
		}
		before = f.Time
		if want := []int{1, 1, 1, 2}[i]; f.Units != want {
			t.Errorf("%s: fills %d cores, want %d", p.spec.Name, f.Units, want)
		}
	}
}
