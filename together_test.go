package weir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/examples/digits"
)

// kept opens the example model with a cache of plans, in which it has a name by its content.
func kept(t testing.TB, dir string) *Model {
	t.Helper()
	path := filepath.Join("examples", "digits", "digits.onnx")
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	m, err := Open(path, WithCache(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// shaped is a job for pictures of the example model.
func shaped(name string, batch int, s Share) Job {
	return Job{Name: name, Share: s,
		Shapes: map[string][]int{"image": {batch, 1, digits.Side, digits.Side}}}
}

// sizesOf are what the weights and an arena of the example model take, whose plan is kept then.
func sizesOf(t testing.TB, dir string, batch int) (packed, arena Bytes) {
	t.Helper()
	h, err := NewHost(HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	m := kept(t, dir)
	job, err := h.Admit(t.Context(), m, shaped("probe", batch, Share{}))
	if err != nil {
		t.Fatal(err)
	}
	packed = Bytes(job.alike.packed)
	arena = job.Usage().Memory - packed
	if _, err := probabilities(t.Context(), m, drawn(batch, 1)); err != nil {
		t.Fatal(err)
	}
	return packed, arena // to close the model waits for the plan to be written
}

// holdsExactly compares what the host counts, and what is on the device, with what should be.
func holdsExactly(t *testing.T, h *Host, when string, want Bytes) {
	t.Helper()
	if st, on := h.Status(), Bytes(h.machine.Device.Held()); st.Held != want || on != want {
		t.Errorf("%s: %d bytes are counted, %d on the device, want %d", when, st.Held, on, want)
	}
}

// TestModelsShareWeights: models of one content hold their weights once, on a device that has no
// room for them twice; each one's figures say what it uses, and the end of any of them, first of
// all that of the one whose file they were read from, takes nothing from the others.
func TestModelsShareWeights(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		t.Run(fmt.Sprint("elastic ", elastic), func(t *testing.T) { modelsShare(t, elastic) })
	}
}

func modelsShare(t *testing.T, elastic bool) {
	dir := t.TempDir()
	packed, arena := sizesOf(t, dir, 1)
	memory := packed + 3*arena
	if elastic {
		memory += 9 * arena // a quarter of it are three arenas, and not four
	}
	h := hosting(t, HostOptions{Memory: memory})
	terms := Share{Memory: packed + arena, Elastic: elastic}
	var models []*Model
	var jobs []*Tenant
	for i := range 3 {
		m := kept(t, dir)
		job, err := h.Admit(t.Context(), m, shaped(fmt.Sprint("j", i), 1, terms))
		if err != nil {
			t.Fatal(err)
		}
		models, jobs = append(models, m), append(jobs, job)
		holdsExactly(t, h, job.Usage().Name, packed+Bytes(i+1)*arena)
	}
	want, err := probabilities(t.Context(), models[0], drawn(1, 7))
	if err != nil {
		t.Fatal(err)
	}
	for i, job := range jobs {
		u := job.Usage()
		if u.Memory != packed+arena || u.Shared != packed || u.Share.Memory != packed+arena ||
			u.Share.Elastic != elastic || u.Peak != u.Memory {
			t.Errorf("job %d: %+v", i, u)
		}
	}
	if st := h.Status(); 4*st.Promised > memory && elastic || !elastic && st.Promised != memory {
		t.Errorf("%v of %v are promised", st.Promised, memory)
	}
	more := kept(t, dir)
	switch job, err := h.Admit(t.Context(), more, shaped("one too many", 1, terms)); {
	case elastic && (err != nil || job.Usage().Shared > 0):
		t.Errorf("%v of %v is kept, %v", h.Status().Promised, memory, err)
	case !elastic && (!errors.Is(err, ErrMemory) || !strings.Contains(err.Error(),
		memory.About())):
		t.Errorf("where there is no room: %v", err)
	}
	more.Close()
	for i := range 3 {
		for k, m := range models[i:] {
			got, err := probabilities(t.Context(), m, drawn(1, 7))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("after %d have left, job %d: equal %t, %v", i, i+k,
					slices.Equal(got, want), err)
			}
		}
		if shared := jobs[i].Usage().Shared; (shared == packed) != (i < 2) {
			t.Errorf("with %d others job %d shares %v", 2-i, i, shared)
		}
		if err := models[i].Close(); err != nil {
			t.Error(err)
		}
		if left := Bytes(2 - i); left > 0 {
			holdsExactly(t, h, fmt.Sprint("after job ", i, " has left"), packed+left*arena)
		}
	}
	holdsExactly(t, h, "in the end", 0)
}

// TestSharedWeightsGoLast: of three models of which two have their weights together, with room for
// two of three weights, those of the two stay while others come and go; and are brought again,
// the same, where nothing else can leave. A job that keeps more than all else does not lose what it
// keeps of them.
func TestSharedWeightsGoLast(t *testing.T) {
	dir := t.TempDir()
	packed, arena := sizesOf(t, dir, 1)
	var others Bytes
	batches := []int{1, 1, 40, 41} // the arenas of two are a quarter of the memory at most
	for _, batch := range batches[2:] {
		p, a := sizesOf(t, dir, batch)
		others = max(others, p+a)
	}
	for _, room := range []Bytes{2, 1} {
		h := hosting(t, HostOptions{Memory: 2*arena + room*others})
		var models []*Model
		var jobs []*Tenant
		for i, batch := range batches {
			most := packed + arena
			if batch > 1 {
				most = others
			}
			m := kept(t, dir)
			job, err := h.Admit(t.Context(), m,
				shaped(fmt.Sprint("j", i), batch, Share{Elastic: true, Memory: most}))
			if err != nil {
				t.Fatal(err)
			}
			models, jobs = append(models, m), append(jobs, job)
		}
		if jobs[1].with.Load() == nil {
			t.Fatalf("room for %d: two models of one content share nothing", room)
		}
		gone := false
		for i := range 40 {
			k := []int{0, 2, 3, 1}[i%4]
			in := drawn(batches[k], 3)
			if _, err := probabilities(t.Context(), models[k], in); err != nil {
				t.Fatalf("room for %d, model %d: %v", room, k, err)
			}
			if st := h.Status(); st.Held > st.Memory {
				t.Fatalf("%v held of %v", st.Held, st.Memory)
			}
			gone = gone || i >= 4 && jobs[0].with.Load().anchor.Away() > 0
		}
		if gone != (room == 1) {
			t.Errorf("room for %d: have the weights of two left: %t", room, gone)
		}
		for _, m := range models {
			m.Close()
		}
		h.Close()
	}
}

// TestShelvedWeightsGoFirst: weights that models have together leave before those of others once
// all of these models are shelved, those that were so before they had them together too, and not
// once one of them is used.
func TestShelvedWeightsGoFirst(t *testing.T) {
	dir := t.TempDir()
	packed, arena := sizesOf(t, dir, 1)
	p, a := sizesOf(t, dir, 41)
	sizesOf(t, dir, 40)
	for _, tc := range []struct {
		before, after []int // shelved, before the second of them came and after
		used          bool
		gone          bool
	}{
		{nil, nil, false, false},
		{nil, []int{1}, false, false},
		{nil, []int{0, 1}, false, true},
		{[]int{0}, []int{1}, false, true},
		{nil, []int{0, 1}, true, false},
	} {
		h := hosting(t, HostOptions{Memory: 2*arena + 2*(p+a)})
		var models []*Model
		var jobs []*Tenant
		come := func(batch int, most Bytes) {
			t.Helper()
			m := kept(t, dir)
			job, err := h.Admit(t.Context(), m, shaped(fmt.Sprint("j", len(jobs)), batch,
				Share{Elastic: true, Memory: most}))
			if err != nil {
				t.Fatal(err)
			}
			models, jobs = append(models, m), append(jobs, job)
		}
		use := func(batch int, some ...int) {
			t.Helper()
			for _, i := range some {
				if _, err := probabilities(t.Context(), models[i], drawn(batch, 3)); err != nil {
					t.Fatal(err)
				}
			}
		}
		come(1, packed+arena)
		for _, i := range tc.before {
			jobs[i].Shelve(true)
		}
		come(1, packed+arena)
		come(40, p+a)
		come(41, p+a)
		use(40, 2)
		if tc.before == nil {
			use(1, 0, 1)
		}
		for _, i := range tc.after {
			jobs[i].Shelve(true)
		}
		if tc.used {
			use(1, 0)
		}
		use(41, 3)
		use(40, 2)
		if gone := jobs[1].with.Load().anchor.Away() > 0; gone != tc.gone {
			t.Errorf("%+v: that the weights have left is %t", tc, gone)
		}
		for _, m := range models {
			m.Close()
		}
		h.Close()
	}
}

// TestSharedWeightsInTurn: models whose weights have to leave for each other's are asked by several
// at a time, and all are answered: nobody waits for memory with the device in hand.
func TestSharedWeightsInTurn(t *testing.T) {
	dir := t.TempDir()
	batches := []int{1, 1, 40, 41}
	packed, arena := sizesOf(t, dir, 1)
	var others Bytes
	for _, batch := range batches[2:] {
		p, a := sizesOf(t, dir, batch)
		others = max(others, p+a)
	}
	h := hosting(t, HostOptions{Memory: 2*arena + others})
	var wait sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var models []*Model
	for i, batch := range batches {
		m := kept(t, dir)
		most := packed + arena
		if batch > 1 {
			most = others
		}
		want, err := probabilities(ctx, kept(t, dir), drawn(batch, 3))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Admit(ctx, m, shaped(fmt.Sprint("j", i), batch,
			Share{Elastic: true, Memory: most})); err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
		defer func() {
			if got, err := probabilities(ctx, m, drawn(batch, 3)); err != nil ||
				!slices.Equal(got, want) {
				t.Errorf("model %d: equal %t, %v", i, slices.Equal(got, want), err)
			}
		}()
	}
	for i, m := range models {
		for range 3 {
			wait.Go(func() {
				for range 40 {
					if _, err := probabilities(ctx, m, drawn(batches[i], 3)); err != nil {
						t.Errorf("model %d: %v", i, err)
						return
					}
				}
			})
		}
	}
	wait.Wait()
}

// TestCapOfShared: a cap is changed of a job that has its weights together with another, which
// knows nothing of that.
func TestCapOfShared(t *testing.T) {
	dir := t.TempDir()
	packed, arena := sizesOf(t, dir, 1)
	for _, elastic := range []bool{false, true} {
		h := hosting(t, HostOptions{})
		terms := Share{Memory: packed + 2*arena, Elastic: elastic}
		a, b := kept(t, dir), kept(t, dir)
		of, err := h.Admit(t.Context(), a, shaped("a", 1, terms))
		if err != nil {
			t.Fatal(err)
		}
		other, err := h.Admit(t.Context(), b, shaped("b", 1, terms))
		if err != nil {
			t.Fatal(err)
		}
		set := func(s Share) error { s.Elastic = elastic; return of.SetShare(s) }
		for _, s := range []Share{{Memory: packed + arena}, {Memory: packed + 9*arena},
			{Class: Latency}, {Memory: packed + arena, Keep: Bytes(len(dir)), Compute: 0.25}} {
			if !elastic {
				s.Keep = 0
			}
			want := s.Memory
			if want == 0 {
				want = of.Usage().Share.Memory
			}
			if err := set(s); err != nil {
				t.Errorf("elastic %t: %+v: %v", elastic, s, err)
			}
			if got := of.Usage().Share; got.Memory != want || got.Class != s.Class ||
				got.Elastic != elastic {
				t.Errorf("elastic %t: after %+v: %+v", elastic, s, got)
			}
		}
		for _, memory := range []Bytes{packed + arena - 1, packed, 1} {
			err := set(Share{Memory: memory})
			if !errors.Is(err, ErrMemory) {
				t.Errorf("elastic %t: a cap of %v: %v", elastic, memory, err)
			}
		}
		if got := of.Usage().Share.Memory; got != packed+arena {
			t.Errorf("elastic %t: the cap is %v after what was refused", elastic, got)
		}
		if got := other.Usage().Share; got.Memory != packed+2*arena {
			t.Errorf("elastic %t: the other's cap is %v", elastic, got.Memory)
		}
		if _, err := probabilities(t.Context(), a, drawn(1, 1)); err != nil {
			t.Error(err)
		}
		if _, err := probabilities(t.Context(), a, drawn(64, 1)); !errors.Is(err, ErrMemory) {
			t.Errorf("elastic %t: what the cap has no room for: %v", elastic, err)
		}
		if err := set(Share{Memory: 64 * MiB}); err != nil {
			t.Fatal(err)
		}
		if _, err := probabilities(t.Context(), a, drawn(64, 1)); err != nil {
			t.Error(err)
		}
		h.Close()
	}
}

// TestModelsShareAtRandom: models of few contents, lent and not, come, compute beside each other,
// lose patience and go, on a device that has not room for all: each result is right, never is more
// held than there is, and what is counted is what is there.
func TestModelsShareAtRandom(t *testing.T) {
	dir := t.TempDir()
	packed, arena := sizesOf(t, dir, 3)
	want := [4][]float32{}
	alone := kept(t, dir)
	for n := 1; n < len(want); n++ {
		p, err := probabilities(t.Context(), alone, drawn(n, 9))
		if err != nil {
			t.Fatal(err)
		}
		want[n] = p
	}
	h := hosting(t, HostOptions{Memory: 4*packed + 8*arena})
	var wait sync.WaitGroup
	for k := range 4 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(13, uint64(k)))
			for i := range 8 {
				comesAndGoes(t, h, dir, fmt.Sprint(k, "-", i), r, want[:])
			}
		})
	}
	wait.Wait()
	if got := h.Status(); got.Held != 0 || len(got.Jobs) != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// comesAndGoes is the life of a model.
func comesAndGoes(t *testing.T, h *Host, dir, name string, r *rand.Rand, want [][]float32) {
	m := kept(t, dir)
	defer m.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	batch := 1 + r.IntN(2)
	job, err := h.Admit(ctx, m, shaped(name, batch, Share{Elastic: r.IntN(2) == 0}))
	if errors.Is(err, ErrMemory) {
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	var runs sync.WaitGroup
	for range 2 {
		n := 1 + r.IntN(3)
		patience := time.Duration(r.IntN(int(20 * time.Millisecond)))
		runs.Go(func() {
			for i := range 4 {
				ctx := ctx
				if i == 2 {
					some, cancel := context.WithTimeout(ctx, patience)
					defer cancel()
					ctx = some
				}
				got, err := probabilities(ctx, m, drawn(n, 9))
				late := errors.Is(err, context.DeadlineExceeded) && i == 2
				if err != nil && !late && !errors.Is(err, ErrMemory) {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil && !slices.Equal(got, want[n]) {
					t.Errorf("%s: other bits for %d", name, n)
				}
				if st := h.Status(); st.Held > st.Memory {
					t.Errorf("%v held of %v", st.Held, st.Memory)
				}
			}
		})
	}
	if u := job.Usage(); u.Shared > u.Memory {
		t.Errorf("%s: %v of %v is shared", name, u.Shared, u.Memory)
	}
	runs.Wait()
}
