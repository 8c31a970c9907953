package scenario

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/evict"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

func TestInputShapes(t *testing.T) {
	g := parseGraph(t, `graph "two" {
  opset "" 17
  input %a: float32[N,S]
  input %b: float32[N,4]
  input %c: float32[3]
  %y: float32[N,4] = Identity@16 "id" (%b)
  output %y
}`)
	given := func(shape ...int) map[string]*tensor.Tensor {
		x, err := tensor.New(tensor.Float32, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*tensor.Tensor{"a": x}
	}
	for _, c := range []struct {
		name    string
		asked   map[string]Shape
		given   map[string]*tensor.Tensor
		a, b, c []int
		wrong   string
	}{
		{name: "nothing said", a: []int{1, 1}, b: []int{1, 4}, c: []int{3}},
		{name: "asked binds the others' symbols", asked: map[string]Shape{"a": {5, 7}},
			a: []int{5, 7}, b: []int{5, 4}, c: []int{3}},
		{name: "given binds the others' symbols", given: given(2, 9), a: []int{2, 9},
			b: []int{2, 4}, c: []int{3}},
		{name: "later binds earlier", asked: map[string]Shape{"b": {6, 4}}, a: []int{6, 1},
			b: []int{6, 4}, c: []int{3}},
		{name: "given against asked", asked: map[string]Shape{"a": {5, 7}}, given: given(2, 9),
			wrong: "[2 9], but shape [5 7] is asked"},
		{name: "wrong type", given: map[string]*tensor.Tensor{"a": tensor.From([]int64{1}, 1, 1)},
			wrong: "given int64, the model takes float32[N,S]"},
		{name: "broken tensor",
			given: map[string]*tensor.Tensor{"a": {DType: tensor.Float32, Shape: []int{8}}},
			wrong: "needs 32 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shapes, err := InputShapes(g, c.asked, c.given)
			if c.wrong != "" {
				if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("got %v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil || !slices.Equal(shapes["a"], c.a) || !slices.Equal(shapes["b"], c.b) ||
				!slices.Equal(shapes["c"], c.c) {
				t.Errorf("got %v, %v", shapes, err)
			}
		})
	}
}

// TestInputShapesOfNames holds that a name with two sizes gives no shape, and that one element is a
// scalar where the model takes one.
func TestInputShapesOfNames(t *testing.T) {
	g := parseGraph(t, `graph "names" {
  opset "" 17
  input %a: float32[d,d]
  input %b: float32[d]
  input %sr: int64[]
  %y: float32[d,d] = Identity@16 "id" (%a)
  output %y
}`)
	rate := map[string]*tensor.Tensor{"sr": tensor.From([]int64{16000}, 1)}
	for name, c := range map[string]struct {
		asked map[string]Shape
		b     []int
		wrong string
	}{
		"one size":       {asked: map[string]Shape{"a": {3, 3}, "sr": {1, 1}}, b: []int{3}},
		"both are given": {asked: map[string]Shape{"a": {2, 3}, "b": {7}}, b: []int{7}},
		"two sizes": {asked: map[string]Shape{"a": {2, 3}},
			wrong: `input "b" (float32[d]) has no shape: d is 2 in input "a" and 3 in input "a"`},
	} {
		shapes, err := InputShapes(g, c.asked, rate)
		if c.wrong != "" {
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %q", name, err, c.wrong)
			}
			continue
		}
		if err != nil || !slices.Equal(shapes["b"], c.b) || shapes["sr"] == nil ||
			len(shapes["sr"]) != 0 {
			t.Errorf("%s: got %v, %v", name, shapes, err)
		}
	}
}

// TestScalarRequest runs a job with one element for a scalar.
func TestScalarRequest(t *testing.T) {
	g := parseGraph(t, `graph "scalar" {
  opset "" 17
  input %sr: int64[]
  %y: int64[] = Neg@13 "neg" (%sr)
  output %y
}`)
	job := closedJob("a", g, 2)
	job.Given = map[string]*tensor.Tensor{"sr": tensor.From([]int64{8000}, 1)}
	res := run1(t, &Scenario{Jobs: []Job{job}}, Options{})
	if r := res.Phases[0].Jobs[0]; r.Error != "" || r.Iterations != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestMakeInputs(t *testing.T) {
	g := parseGraph(t, `graph "many" {
  opset "" 17
  input %f: float32[100]
  input %d: float64[100]
  input %h: float16[100]
  input %i: int64[3]
  input %u: uint8[3]
  input %b: bool[3]
  input %given: float32[2]
  %y: float32[2] = Identity@16 "id" (%given)
  output %y
}`)
	given := map[string]*tensor.Tensor{"given": tensor.From([]float32{4, 5}, 2)}
	shapes, err := InputShapes(g, nil, given)
	if err != nil {
		t.Fatal(err)
	}
	a, err := MakeInputs(g, shapes, given, 3)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := MakeInputs(g, shapes, given, 3)
	other, _ := MakeInputs(g, shapes, given, 4)
	for i := range 3 {
		if !bytes.Equal(a[i].Data, same[i].Data) || bytes.Equal(a[i].Data, other[i].Data) {
			t.Errorf("input %d does not follow the seed", i)
		}
		var low, high bool
		for k := range a[i].Len() {
			var v float64
			switch x := a[i].At(k).(type) {
			case float32:
				v = float64(x)
			case float64:
				v = x
			case tensor.Half:
				v = float64(x.Float32())
			}
			if v < 0 || v > 1 {
				t.Fatalf("input %d holds %v", i, v)
			}
			low, high = low || v < 0.5, high || v >= 0.5
		}
		if !low || !high {
			t.Errorf("input %d is not uniform", i)
		}
	}
	if !slices.Equal(tensor.As[int64](a[3]), []int64{1, 1, 1}) ||
		!bytes.Equal(a[4].Data, []byte{1, 1, 1}) || !bytes.Equal(a[5].Data, []byte{1, 1, 1}) {
		t.Errorf("integers and booleans are %v %v %v", a[3].Data, a[4].Data, a[5].Data)
	}
	if a[6] != given["given"] {
		t.Error("a given input was replaced")
	}
}

func TestReadInputs(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.npy"), filepath.Join(dir, "bad.npy")
	var b bytes.Buffer
	if err := npy.Write(&b, tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 8)); err != nil {
		t.Fatal(err)
	}
	size := int64(b.Len())
	for file, data := range map[string][]byte{good: b.Bytes(), bad: []byte("hello")} {
		if err := os.WriteFile(file, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	g := denseGraph(t)
	got, err := ReadInputs(g, map[string]string{"x": good}, size)
	if err != nil || !slices.Equal(got["x"].Shape, []int{1, 8}) {
		t.Fatal(got, err)
	}
	if _, err := ReadInputs(g, map[string]string{"nope": good}, 0); !errors.Is(err, ErrInput) ||
		!strings.Contains(err.Error(), "it takes x") {
		t.Errorf("unknown input: %v", err)
	}
	if _, err := ReadInputs(g, map[string]string{"x": bad}, 0); !errors.Is(err, npy.ErrFormat) ||
		!strings.Contains(err.Error(), bad) {
		t.Errorf("broken file: %v", err)
	}
	if _, err := ReadInputs(g, map[string]string{"x": good}, size-1); !errors.Is(err,
		device.ErrOutOfMemory) || !strings.Contains(err.Error(), good) {
		t.Errorf("a file of more bytes than there is room for: %v", err)
	}
	if _, err := ReadInputs(g, map[string]string{"x": good + "x"}, 0); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestPrepareNamesTheJob gives one job everything that makes a scenario impossible to run as
// written.
func TestPrepareNamesTheJob(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.onnx")
	if err := os.WriteFile(garbage, []byte("this is no model"), 0o666); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "dense.onnx")
	if err := onnx.WriteFile(good, denseGraph(t), onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		job  Job
		want []string
	}{
		"missing":       {Job{Model: filepath.Join(dir, "none.onnx")}, []string{"none.onnx"}},
		"garbage":       {Job{Model: garbage}, []string{garbage}},
		"unknown input": {Job{Model: good, Shapes: map[string]Shape{"y": {1, 8}}}, []string{`"y"`}},
		"wrong rank": {Job{Model: good, Shapes: map[string]Shape{"x": {8}}},
			[]string{`"x"`, "[8]"}},
		"wrong size": {Job{Model: good, Shapes: map[string]Shape{"x": {1, 9}}},
			[]string{`"x"`, "9"}},
		"huge": {Job{Model: good, Shapes: map[string]Shape{"x": {1 << 60, 8}}},
			[]string{`"x"`}},
		"missing npy": {Job{Model: good,
			Inputs: map[string]string{"x": filepath.Join(dir, "none.npy")}}, []string{"none.npy"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Job = share.Job{Name: "train-7", Iterations: 1}
			neighbour := closedJob("neighbour", denseGraph(t), 1)
			_, err := Run(t.Context(), &Scenario{Jobs: []Job{neighbour, c.job}}, Options{})
			if !errors.Is(err, ErrScenario) {
				t.Fatalf("got %v", err)
			}
			for _, part := range append(c.want, "job train-7") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
		})
	}
}

func TestFillInputsChecks(t *testing.T) {
	dev, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	p, err := prepare(t.Context(), closedJob("a", denseGraph(t), 1), nil,
		kernels.Target(device.Info{}), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Load(p.plan, engine.Options{Device: dev, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range [][]*tensor.Tensor{
		{tensor.From(make([]float32, 16), 2, 8)}, {tensor.From(make([]float64, 8), 1, 8)},
		{tensor.From(make([]float32, 8), 8, 1)},
	} {
		if err := FillInputs(i, request); !errors.Is(err, ErrInput) {
			t.Errorf("%v%v: got %v", request[0].DType, request[0].Shape, err)
		}
	}
	i.Put()
	s.Close()
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
}

// TestFailedInstanceLeavesNothing gives an instance less memory than it needs, at every step of its
// loading.
func TestFailedInstanceLeavesNothing(t *testing.T) {
	r, err := newRun(context.Background(),
		&Scenario{Device: "cpu:0", Jobs: []Job{closedJob("a", vision(t, "resnet50"), 1)}},
		Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	p := r.jobs[0]
	plan, need := p.plan.PeakBytes(1), p.need()
	for _, limit := range []int64{1, p.plan.PackedBytes - 1, p.plan.PackedBytes, plan - 1, plan,
		need - 1} {
		q := seat.NewCounted("a", share.Bytes(limit))
		if _, _, err := p.instance(engine.Options{Device: r.Device, Pool: r.Pool,
			Quota: q}); !errors.Is(err, core.ErrOverCap) {
			t.Errorf("%d of %d bytes: got %v", limit, need, err)
		}
		if q.Held() != 0 || r.Device.Held() != 0 || int64(q.Peak()) > limit {
			t.Errorf("%d of %d bytes: quota %v, device %d held", limit, need, q.Held(),
				r.Device.Held())
		}
	}
	q := seat.NewCounted("a", share.Bytes(need))
	_, free, err := p.instance(engine.Options{Device: r.Device, Pool: r.Pool, Quota: q})
	if err != nil || r.Device.Held() != plan || int64(q.Peak()) != need {
		t.Fatalf("all %d bytes: held %d, peak %v, %v", need, r.Device.Held(), q.Peak(), err)
	}
	free()
	free()
	if q.Held() != 0 || r.Device.Held() != 0 {
		t.Errorf("freed twice: quota %v, device %d held", q.Held(), r.Device.Held())
	}
}

// TestFileWrittenDuringPhase holds that a job whose steps read its model's mapped file ends once
// that is written in place, and does not go on with what it reads.
func TestFileWrittenDuringPhase(t *testing.T) {
	g := parseGraph(t, `graph "words" {
		opset "" 17
		input %tokens: int64[1]
		const %words: float32[2,2] = {1, 2, 3, 4}
		%y: float32[1,2] = Gather@13 (%words, %tokens) {axis=0}
		output %y
	}`)
	path := filepath.Join(t.TempDir(), "words.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	j := closedJob("words", nil, 1)
	j.Model = path
	r, err := newRun(t.Context(), &Scenario{Device: "cpu:0", Jobs: []Job{j}}, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	it, free, err := r.jobs[0].instance(engine.Options{Device: r.Device, Pool: r.Pool,
		Quota: &seat.Counted{}})
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if err := it(t.Context(), device.Open); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := it(t.Context(), device.Open); !errors.Is(err, onnx.ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// slow is a policy that lets a byte a second of each job pass.
type slow struct{}

func (slow) Name() string { return "slow" }

func (slow) Decide(s *share.Snapshot) (d share.Decision) {
	for i := range s.Jobs {
		d.Set = append(d.Set, share.Terms{Job: s.Jobs[i].ID, Copy: 1})
	}
	return d
}

// TestLoadGivesUp: a job whose weights the policy holds back while it is loaded is not waited for
// when the run is over, and holds nothing.
func TestLoadGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Scenario{Policy: "fair", Jobs: []Job{closedJob("late", denseGraph(t), 1)}}
		r, err := newRun(t.Context(), s.valid(t), Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		stage, err := r.newStage(&Phase{}, Shared, "fair")
		if err != nil {
			t.Fatal(err)
		}
		stage.broker.Close()
		c := seat.Device("cpu:0", r.Machine)
		c.Policy, c.Eviction = slow{}, &evict.LRU{}
		if stage.broker, err = broker.New(broker.Config{Config: c}); err != nil {
			t.Fatal(err)
		}
		defer stage.close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		stage.add(ctx, r.jobs[0], 0)
		if took := time.Since(began); took != 3*time.Second || stage.tenants[0].driver != nil {
			t.Errorf("3 s before the end of the run it was waited for for %v: %+v", took,
				stage.tenants[0].result)
		}
		if n := r.Device.Held(); n != 0 {
			t.Errorf("%d bytes are held on the device", n)
		}
	})
}
