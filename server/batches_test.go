package server

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// written is a model from a graph's text.
func written(name, text string) Source {
	return Source{Name: name, Version: 1, Open: func() (*weir.Model, error) {
		g, err := graph.Parse(text)
		if err != nil {
			return nil, err
		}
		var file bytes.Buffer
		if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
			return nil, err
		}
		return weir.Load(file.Bytes())
	}}
}

// batches makes a version put together so many rows, whether that is quicker or not.
func batches(t *testing.T, s *Server, name string, most int, sizes ...int) *version {
	t.Helper()
	s.background.Wait() // what is learned is known
	v := s.models[name].newest()
	v.batches.Store(&batching{most: most, sizes: sizes})
	if err := v.queue.Set(v.admission()); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRowsEqual: random requests that come at once have the answers that each has alone, row by
// row, however they are put together, and some are.
func TestRowsEqual(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	v := batches(t, s, "digits", 8, 2, 4, 8)
	const requests = 200
	rng := rand.New(rand.NewPCG(3, 4))
	all, _ := picture(t, 50)
	var wait sync.WaitGroup
	gate := make(chan struct{})
	for range requests {
		n := 1 + rng.IntN(10) // more than a batch takes, too
		from := rng.IntN(40) * 64
		pixels := all[from : from+n*64]
		want := tensor.From(expected(t, pixels), n, 10)
		wait.Go(func() {
			<-gate
			r := &oip.Request{Inputs: []oip.Input{{Name: "image",
				Tensor: tensor.From(pixels, n, 1, 8, 8)}}}
			a, err := s.Infer(t.Context(), "digits", "", r)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			if got := a.Outputs[0].Tensor; !alike(got, want) {
				t.Errorf("%d rows from %d: %v, want %v", n, from, got, want)
			}
		})
	}
	close(gate)
	wait.Wait()
	st := v.counts.Statistics()
	if st.Executions >= requests || st.Inferences < requests {
		t.Errorf("%d requests in %d executions", requests, st.Executions)
	}
	if v.under != 0 || s.active != 0 {
		t.Errorf("%d and %d requests are left", v.under, s.active)
	}
}

// picking is a model that fails on indices from 3 on.
func picking() Source {
	return written("pick", `graph "pick" {
	  opset "" 17
	  input %i: int64[N]
	  const %table: float32[3] = {1, 2, 3}
	  %y: float32[N] = Gather@13 (%table, %i)
	  output %y
	}`)
}

// TestOneIsWrong: a request that fails on its own data leaves those beside it their answers.
func TestOneIsWrong(t *testing.T) {
	s := begin(t, Options{}, picking())
	v := batches(t, s, "pick", 4, 4)
	var batch []*task
	for _, i := range []int64{2, 7, 0} {
		batch = append(batch, &task{rows: 1, in: weir.Inputs{"i": tensor.From([]int64{i}, 1)}})
	}
	if err := v.run(t.Context(), batch, func() {}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{3, 0, 1} {
		x := batch[i]
		switch {
		case i == 1:
			if !errors.Is(x.err, weir.ErrInput) {
				t.Errorf("index 7: %v", x.err)
			}
		case x.err != nil || tensor.As[float32](x.out[0])[0] != want:
			t.Errorf("request %d: %v, %v", i, x.out, x.err)
		}
		x.free()
	}
}

// TestDeskLeaves: what a batch was put together in does not stay for ever.
func TestDeskLeaves(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	v := batches(t, s, "digits", 8, 8)
	pixels, _ := picture(t, 8)
	var batch []*task
	for range 2 {
		batch = append(batch, &task{rows: 4, in: weir.Inputs{"image": tensor.From(pixels[:256], 4,
			1, 8, 8)}})
	}
	if err := v.run(t.Context(), batch, func() {}); err != nil {
		t.Fatal(err)
	}
	left := weak.Make(&batch[0].in["image"].Data[0])
	for _, x := range batch {
		x.free()
	}
	batch = nil
	for range 3 { // a pool keeps what is in it over one collection
		runtime.GC()
	}
	if left.Value() != nil {
		t.Error("the memory of a batch is kept")
	}
	runtime.KeepAlive(v)
}

// TestLearn: rows are put together where they are independent, and where not the reason is known.
func TestLearn(t *testing.T) {
	s := begin(t, Options{Batch: 4}, digitsSource(),
		written("mean", `graph "mean" {
		  opset "" 17
		  input %x: float32[N,3]
		  const %axes: int64[1] = {0}
		  %m: float32[1,3] = ReduceMean@18 (%x, %axes)
		  %y: float32[N,3] = Sub@14 (%x, %m)
		  output %y
		}`),
		written("fixed", `graph "fixed" {
		  opset "" 17
		  input %x: float32[1,3]
		  %y: float32[1,3] = Neg@13 (%x)
		  output %y
		}`))
	s.background.Wait()
	for name, why := range map[string]string{"mean": "rows depend", "fixed": "is not open",
		"digits": "up to"} {
		b := s.models[name].newest().batches.Load()
		if !strings.Contains(b.why, why) || name != "digits" && b.most != 1 {
			t.Errorf("%s: %d rows: %s", name, b.most, b.why)
		}
		c, err := s.Config(name, "")
		if err != nil || c.Parameters["batching"].StringValue != b.why {
			t.Errorf("%s: the configuration does not say %q: %+v, %v", name, b.why, c, err)
		}
	}
}

// TestRefusals: what an account may not have waiting is 429, what the model may not is 503, and
// both say when to ask again; the account's bound is over all models.
func TestRefusals(t *testing.T) {
	entered, leave := make(chan struct{}, 9), make(chan struct{}, 9)
	s := begin(t, Options{Queue: 2}, held("one", entered, leave, nil),
		held("two", entered, leave, nil))
	ann := auth.With(t.Context(), &auth.Account{Name: "ann", Weight: 1, Queue: 1})
	ask := func(ctx context.Context, model string) <-chan error {
		c := make(chan error, 1)
		go func() {
			a, err := s.Infer(ctx, model, "", &oip.Request{Inputs: []oip.Input{{Name: "x",
				Tensor: tensor.From([]float32{1}, 1)}}})
			if err == nil {
				a.Close()
			}
			c <- err
		}()
		return c
	}
	first := ask(ann, "one")
	<-entered
	second := ask(ann, "one")
	for s.models["one"].newest().queue.Waiting() < 1 {
		time.Sleep(time.Millisecond)
	}
	err := <-ask(ann, "two")
	if oip.KindOf(err) != oip.Exhausted || oip.RetryAfter(err) == 0 {
		t.Errorf("the account's second that waits: %v", err)
	}
	third := ask(t.Context(), "one")
	for s.models["one"].newest().queue.Waiting() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := <-ask(t.Context(), "one"); oip.KindOf(err) != oip.Unavailable ||
		oip.RetryAfter(err) == 0 {
		t.Errorf("beyond the model's queue: %v", err)
	}
	for range 3 {
		leave <- struct{}{}
	}
	if err := errors.Join(<-first, <-second, <-third); err != nil {
		t.Error(err)
	}
	leave <- struct{}{}
	if err := <-ask(ann, "two"); err != nil {
		t.Errorf("once nothing waits: %v", err)
	}
}

// TestLearnedOnce: a version that is served again is put together as it was before, after as many
// runs as show that its rows are still independent of each other; where they are not, it is not.
func TestLearnedOnce(t *testing.T) {
	var runs, mixed atomic.Int64
	count := weir.Operator{Domain: "test", Name: "Count", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			runs.Add(1)
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err != nil {
				return err
			}
			copy(y.Data, c.In[0].Data)
			if values := tensor.As[float32](y); mixed.Load() > 0 {
				values[0] = values[len(values)-1]
			}
			return nil
		}}
	from := &shelf{}
	s := begin(t, Options{Catalogue: from, Batch: 8}, computed("m", 1, count))
	s.background.Wait()
	want := batching{most: 4, sizes: []int{2, 4}, why: "up to 4 rows"}
	s.models["m"].newest().batches.Store(&want)
	from.put("m", computed("m", 2, count))
	if err := s.LoadModel(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	rolled := func() *batching {
		if err := s.Rollback(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		return s.models["m"].newest().batches.Load()
	}
	before := runs.Load()
	if got := rolled(); got.most != want.most || got.why != want.why ||
		!slices.Equal(got.sizes, want.sizes) {
		t.Errorf("%+v is served again as %+v", want, *got)
	}
	// one run to be warm, those of single rows, and one of each size
	if n := runs.Load() - before; n != int64(1+samples+len(want.sizes)) {
		t.Errorf("%d runs for batches of %v rows", n, want.sizes)
	}
	mixed.Store(1)
	rolled()
	if got := rolled(); got.most != 1 || !strings.HasPrefix(got.why, "off") {
		t.Errorf("rows that depend on each other: %+v", *got)
	}
}
