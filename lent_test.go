package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// wide is a model with 1 MiB of weights, unlike those of other seeds.
func wide(t testing.TB, seed int) []byte {
	t.Helper()
	g, err := graph.ParseExternal(`graph "wide" {
		opset "" 17
		input %x: float32[N,64]
		const %w: float32[64,2048] = at 0
		const %v: float32[2048,64] = at 1
		%y: float32[N,2048] = MatMul@13 (%x, %w)
		%r: float32[N,2048] = Relu@14 (%y)
		%z: float32[N,64] = MatMul@13 (%r, %v)
		output %z
	}`, func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32((i*(seed+3)+int(at))%11) - 5
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rows are inputs of the model.
func rows(n, seed int) Inputs {
	x := make([]float32, n*64)
	for i := range x {
		x[i] = float32((i*seed)%7) - 3
	}
	return Inputs{"x": tensor.From(x, n, 64)}
}

// answered runs a model and returns a copy of its output.
func answered(ctx context.Context, m *Model, in Inputs) ([]float32, error) {
	r, err := m.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	z, err := Output[float32](r, "z")
	return slices.Clone(z), err
}

// lentModels admits models whose memory is lent.
func lentModels(t *testing.T, h *Host, n int) (models []*Model, tenants []*Tenant) {
	t.Helper()
	for i := range n {
		m, err := Load(wide(t, i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		job, err := h.Admit(t.Context(), m, Job{Name: fmt.Sprint(i),
			Share:  Share{Elastic: true, Memory: 5 * MiB / 2},
			Shapes: map[string][]int{"x": {1, 64}}})
		if err != nil {
			t.Fatal(err)
		}
		models, tenants = append(models, m), append(tenants, job)
	}
	return models, tenants
}

// TestLentGivesNoMore: weights go before arenas, and both to the byte: what goes beside may be what
// the job keeps. What is left of an arena is completed by the next Run, which computes the same.
func TestLentGivesNoMore(t *testing.T) {
	h := hosting(t, HostOptions{Memory: 16 * MiB})
	models, tenants := lentModels(t, h, 1)
	want, err := answered(t.Context(), models[0], rows(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	m := tenants[0].model
	v := m.all()[0]
	p := v.session.Plan()
	memory := func() int64 {
		held, _ := m.tenancy.Load().memory()
		return held
	}
	give := func(most, left int64) {
		t.Helper()
		before := memory()
		if freed := m.giveBack(most); memory() != left || freed != before-left {
			t.Errorf("asked for %d bytes it gave %d, and holds %d of %d, want %d", most, freed,
				memory(), before, left)
		}
		if n := v.missing(); n != p.PackedBytes+p.ArenaBytes-left {
			t.Errorf("a Run lacks %d bytes of those that were given back", n)
		}
	}
	again := func() {
		t.Helper()
		got, err := answered(t.Context(), models[0], rows(1, 1))
		if err != nil || !slices.Equal(got, want) || memory() != p.PackedBytes+p.ArenaBytes {
			t.Errorf("the next Run: %v, the same %v, %d bytes are held", err,
				slices.Equal(got, want), memory())
		}
	}
	give(1, p.PackedBytes+p.ArenaBytes-1)
	give(p.PackedBytes-2, p.ArenaBytes+1)
	give(3, p.ArenaBytes-2)
	give(p.ArenaBytes-3, 1)
	again()
	give(p.PackedBytes+1, p.ArenaBytes-1)
	give(p.ArenaBytes-1, 0)
	give(1, 0)
	again()
}

// TestLentMemory: models whose sum is several times the device's memory are all admitted, compute
// the bits that they compute alone, whatever shapes come, and never hold more together than there
// is.
func TestLentMemory(t *testing.T) {
	h := hosting(t, HostOptions{Memory: 3 * MiB})
	models, tenants := lentModels(t, h, 8)
	var want [8][4][]float32
	for i := range want {
		alone, err := Load(wide(t, i))
		if err != nil {
			t.Fatal(err)
		}
		for n := range want[i] {
			if want[i][n], err = answered(t.Context(), alone, rows(n+1, i+n)); err != nil {
				t.Fatal(err)
			}
		}
		alone.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for k := range 6 {
		rng := rand.New(rand.NewPCG(uint64(k), 9))
		wait.Go(func() {
			for range 60 {
				i, n := rng.IntN(8), rng.IntN(4)
				got, err := answered(ctx, models[i], rows(n+1, i+n))
				if err != nil || !slices.Equal(got, want[i][n]) {
					t.Errorf("model %d, %d rows: %v", i, n+1, err)
					return
				}
				if st := h.Status(); st.Held > st.Memory || st.Promised != 0 {
					t.Errorf("%v are held and %v promised of %v", st.Held, st.Promised, st.Memory)
				}
				if held := h.machine.Device.Held(); held > int64(3*MiB) {
					t.Errorf("the device holds %d bytes", held)
				}
			}
		})
	}
	for _, p := range []string{"priority", "timeslice", "fifo", "fair:slice=1ms"} {
		if err := h.SetPolicy(p); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
	wait.Wait()
	away := 0
	for _, j := range tenants {
		if u := j.Usage(); u.Memory < MiB {
			away++
		} else if u.Peak > u.Share.Memory {
			t.Errorf("%v were held of %v", u.Peak, u.Share.Memory)
		}
	}
	if away < 5 {
		t.Errorf("%d of 8 models are away", away)
	}
}

// TestLentWaits: who needs memory that an open result holds has it once that is closed, and its
// context ends the wait; what a model keeps is not taken from it.
func TestLentWaits(t *testing.T) {
	h := hosting(t, HostOptions{Memory: 5 * MiB / 2})
	models, tenants := lentModels(t, h, 2)
	if err := tenants[0].SetShare(Share{Elastic: true, Keep: 9 * MiB / 8,
		Memory: 5 * MiB / 2}); err == nil ||
		!errors.Is(err, ErrMemory) {
		t.Errorf("keep beside a cap of all that there is: %v", err)
	}
	if err := tenants[0].SetShare(Share{Memory: MiB}); !errors.Is(err, ErrOption) ||
		!strings.Contains(err.Error(), "elastic") {
		t.Errorf("another kind of memory: %v", err)
	}
	if _, err := models[1].Run(t.Context(), rows(3000, 1)); !errors.Is(err, ErrMemory) {
		t.Errorf("more than the cap: %v", err)
	}
	in := rows(100, 1) // whose arena leaves no room for another model
	big, err := models[0].Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = models[1].Run(short, rows(100, 1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside it: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := answered(t.Context(), models[1], rows(100, 1))
		done <- err
	}()
	big.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLentOwnWeights: a plan that needs the room of other weights of the model, which are being
// read for the cache of plans, is loaded once those were read: nobody else can give it room below
// the cap.
func TestLentOwnWeights(t *testing.T) {
	g, err := zoo.New("resnet50", zoo.Options{Layers: 1, Width: 0.25, Resolution: 32, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := Load(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	name := m.Inputs()[0].Name
	pictures := func(n int) Inputs {
		return Inputs{name: tensor.From(make([]float32, n*3*32*32), n, 3, 32, 32)}
	}
	h := hosting(t, HostOptions{Memory: 3 * MiB})
	job, err := h.Admit(t.Context(), m, Job{Name: "m", Share: Share{Elastic: true, Memory: 3 * MiB},
		Shapes: map[string][]int{name: {1, 3, 32, 32}}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int) error {
		r, err := m.Run(t.Context(), pictures(n))
		if err == nil {
			r.Close()
		}
		return err
	}
	if err := run(1); err != nil {
		t.Fatal(err)
	}
	first, err := m.variant(pictures(1))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	err = first.session.WithWeights(t.Context(), func([]byte) error {
		go func() { done <- run(2) }()
		for job.job.Status().Memory.Asked == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	m.give() // as who reads them for the cache does
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	second, err := m.variant(pictures(2))
	if err != nil || first.session.Plan().SamePacking(second.session.Plan()) {
		t.Errorf("both sets of shapes have the same weights, or %v", err)
	}
}
