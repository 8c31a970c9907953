package jobs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/tensor"
)

// doubler is a model that doubles numbers, and what it is asked to compute. It must be told apart
// from nothing: equal rows are counted together.
type doubler struct {
	mu    sync.Mutex
	count map[float32]int
	// before is called with each row before it is computed, nil for nothing.
	before func(v float32)
}

// operator is that of the model.
func (d *doubler) operator() weir.Operator {
	return weir.Operator{Domain: "test", Name: "Double", Inputs: 1, Random: true,
		Eval: func(c *op.Eval) error {
			x := tensor.As[float32](c.In[0])
			y, err := c.Output(0, tensor.Float32, c.In[0].Shape)
			if err != nil {
				return err
			}
			for i, v := range x {
				if d.before != nil {
					d.before(v)
				}
				tensor.As[float32](y)[i] = 2 * v
				d.mu.Lock()
				d.count[v]++
				d.mu.Unlock()
			}
			return nil
		}}
}

// source is the model under a name and version.
func (d *doubler) source(name string, version int64) server.Source {
	return server.Source{Name: name, Version: version, Open: func() (*weir.Model, error) {
		return model(`graph "double" {
		  opset "" 17
		  opset "test" 1
		  input %x: float32[N]
		  %y: float32[N] = test:Double@1 (%x)
		  output %y
		}`, weir.WithOperators(d.operator()))
	}}
}

// model loads a model that is given as text.
func model(text string, o ...weir.Option) (*weir.Model, error) {
	g, err := graph.Parse(text)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	return weir.Load(file.Bytes(), o...)
}

// numbers are from 1 to n.
func numbers(n int) *tensor.Tensor {
	x := tensor.From(make([]float32, n), n)
	for i := range n {
		tensor.As[float32](x)[i] = float32(i + 1)
	}
	return x
}

// double makes a job that doubles the numbers from 1 to n, in the name of ctx's account.
func (p *place) double(t testing.TB, ctx context.Context, key string, n int) *Job {
	t.Helper()
	file := packed(t, map[string]*tensor.Tensor{"x": numbers(n)})
	j, made, err := p.jobs.Make(ctx, Asked{Key: key, Model: "double", Size: -1},
		bytes.NewReader(file))
	if err != nil || !made {
		t.Fatal(made, err)
	}
	return j
}

// doubled holds that the result of a job is the doubles of the numbers from 1 to n.
func (p *place) doubled(t testing.TB, id int64, n int) {
	t.Helper()
	want := numbers(n)
	for i := range tensor.As[float32](want) {
		tensor.As[float32](want)[i] *= 2
	}
	if got := p.result(t, id)["y"]; !tensor.Equal(got, want) {
		t.Errorf("the result of %d rows is %v", n, got)
	}
}

// once holds that each of the numbers from 2 to n was computed once. Ones are what a model is
// warmed up with.
func (d *doubler) once(t testing.TB, n int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 1; i < n; i++ {
		if c := d.count[float32(i+1)]; c != 1 {
			t.Errorf("row %d was computed %d times", i, c)
		}
	}
}

// newDoubler returns one that waits at the row of a number until there is a value in leave.
func newDoubler(at float32) (d *doubler, entered, leave chan struct{}) {
	entered, leave = make(chan struct{}, 9), make(chan struct{}, 9)
	return &doubler{count: map[float32]int{}, before: func(v float32) {
		if v == at {
			entered <- struct{}{}
			<-leave
		}
	}}, entered, leave
}

// device makes what a process makes once of the device, outside of any bubble.
var device = sync.OnceFunc(func() {
	if s, err := server.New(server.Options{}); err == nil {
		_ = s.LoadAll(context.Background(), models("digits"))
		_ = s.Close()
	}
})

// bubble is synctest.Test for servers.
func bubble(t *testing.T, f func(t *testing.T)) {
	device()
	synctest.Test(t, f)
}

// TestDrain: a server that ends keeps the rows that are computed, and goes on with the next one.
func TestDrain(t *testing.T) {
	dir := t.TempDir()
	d, entered, leave := newDoubler(40)
	p := begin(t, dir, Options{Part: time.Hour}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 100)
	<-entered
	closed := make(chan struct{})
	go func() { p.jobs.Close(context.Background()); close(closed) }()
	<-p.jobs.stop.Done()
	if err := p.jobs.Cancel(t.Context(), j.ID); !errors.Is(err, errStopping) {
		t.Errorf("a change while it stops: %v", err)
	}
	leave <- struct{}{}
	<-closed
	got, err := p.jobs.Get(t.Context(), j.ID)
	if err != nil || got.State != Queued || got.Done != 40 || got.Attempts != 0 {
		t.Errorf("stopped it is %+v, %v", got, err)
	}
	p.end(t)
	p = begin(t, dir, Options{}, d.source("double", 1))
	p.ended(t, j.ID, Done)
	p.doubled(t, j.ID, 100)
	d.once(t, 100)
}

// TestCancel: a job that was cancelled computes nothing more, and leaves nothing on the disk.
func TestCancel(t *testing.T) {
	d, entered, leave := newDoubler(40)
	p := begin(t, t.TempDir(), Options{Part: time.Hour}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 100)
	waiting := p.double(t, t.Context(), "b", 100)
	<-entered
	for range 2 {
		for _, id := range []int64{j.ID, waiting.ID} {
			if err := p.jobs.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	}
	leave <- struct{}{}
	next := p.double(t, t.Context(), "c", 30)
	p.ended(t, next.ID, Done)
	p.doubled(t, next.ID, 30)
	for _, id := range []int64{j.ID, waiting.ID} {
		if got := p.ended(t, id, Cancelled); got.Ended.IsZero() {
			t.Errorf("it is %+v", got)
		}
	}
	if d.count[41] != 0 {
		t.Errorf("row 41 was computed")
	}
	j = p.ended(t, next.ID, Done)
	p.left(t, j.Result)
	var own *refusal
	if err := p.jobs.Cancel(t.Context(), next.ID); !errors.As(err, &own) || own.status != 409 {
		t.Errorf("cancelling what is done: %v", err)
	}
	if err := p.jobs.Cancel(t.Context(), 99); !errors.Is(err, ErrNoJob) {
		t.Errorf("cancelling nothing: %v", err)
	}
}

// endAmid ends the server while a row is computed, which leave lets go once no other will begin.
func (p *place) endAmid(t *testing.T, leave chan<- struct{}) {
	t.Helper()
	closed := make(chan struct{})
	go func() { p.jobs.Close(context.Background()); close(closed) }()
	<-p.jobs.stop.Done()
	leave <- struct{}{}
	<-closed
	p.end(t)
}

// TestAway: a job whose model is not served waits for it; with another version it does not go on,
// and is tried again once the version is back.
func TestAway(t *testing.T) {
	dir := t.TempDir()
	d, entered, leave := newDoubler(40)
	p := begin(t, dir, Options{}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 50)
	<-entered
	p.endAmid(t, leave)
	p = begin(t, dir, Options{}, models("digits")...)
	got := p.until(t, j.ID, func(j *Job) bool { return strings.Contains(j.Reason, "waits") })
	if got.State != Queued || got.Attempts != 0 || !strings.Contains(got.Reason, "double") {
		t.Errorf("without its model it is %+v", got)
	}
	p.end(t)
	p = begin(t, dir, Options{}, d.source("double", 2))
	p.rested(t)
	if got = p.ended(t, j.ID, Failed); !strings.Contains(got.Reason, "version") {
		t.Errorf("with another version it is %+v", got)
	}
	p.end(t)
	p = begin(t, dir, Options{}, d.source("double", 1))
	if err := p.jobs.Retry(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	p.ended(t, j.ID, Done)
	p.doubled(t, j.ID, 50)
	d.once(t, 50)
	if err := p.jobs.Retry(t.Context(), j.ID); err == nil {
		t.Error("what is done was tried again")
	}
}

// rested makes all rests over.
func (p *place) rested(t testing.TB) {
	t.Helper()
	if err := p.state.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE jobs_jobs SET rests = 0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.jobs.rouse()
}

// TestAttempts: after a failure a job rests, twice as long each time, and after some without a row
// it has failed; tried again, it goes on after the rows that are done. Time is virtual.
func TestAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		broken := true
		var at []time.Time
		d := &doubler{count: map[float32]int{}, before: func(v float32) {
			if v == 5 && broken {
				at = append(at, time.Now())
				panic("broken")
			}
		}}
		p := begin(t, t.TempDir(), Options{Attempts: 4}, d.source("double", 1))
		j := p.double(t, t.Context(), "a", 9)
		for range 60 {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		got, err := p.jobs.Get(t.Context(), j.ID)
		if err != nil || got.State != Failed || got.Done != 4 || got.Attempts != 4 {
			t.Fatalf("it is %+v, %v", got, err)
		}
		var rests []float64
		for i := range at[1:] {
			rests = append(rests, math.Round(at[i+1].Sub(at[i]).Seconds()))
		}
		if !slices.Equal(rests, []float64{1, 2, 4}) {
			t.Errorf("it rested for %v s", rests)
		}
		broken = false
		if err := p.jobs.Retry(t.Context(), j.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 9)
		d.once(t, 9)
		p.end(t)
	})
}

// TestDeadly: a job that ends the process each time is not tried for ever.
func TestDeadly(t *testing.T) {
	dir := t.TempDir()
	d := &doubler{count: map[float32]int{}}
	p := begin(t, dir, Options{}, models("digits")...)
	p.end(t)
	p = begin(t, dir, Options{}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 9)
	p.ended(t, j.ID, Done)
	if err := p.state.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE jobs_jobs SET state = ?, attempts = ?", Running, DefaultAttempts)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	p = begin(t, dir, Options{}, d.source("double", 1))
	got := p.ended(t, j.ID, Failed)
	if !strings.Contains(got.Reason, "8 attempts") ||
		!strings.Contains(got.Reason, "the server ended") {
		t.Errorf("it is %+v", got)
	}
}

// TestMemory: a job whose memory is promised to others waits until some is left. Time is virtual.
func TestMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &doubler{count: map[float32]int{}}
		p := begin(t, t.TempDir(), Options{}, d.source("double", 1))
		st := p.server.Status()
		own := st.Jobs[0].Share
		all := own
		all.Memory = st.Memory
		if _, err := p.server.SetShare("double", all); err != nil {
			t.Fatal(err)
		}
		j := p.double(t, t.Context(), "a", 9)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got, err := p.jobs.Get(t.Context(), j.ID)
		if err != nil || got.State != Queued || got.Attempts != 0 ||
			!strings.Contains(got.Reason, "it waits for memory") {
			t.Fatalf("without memory it is %+v, %v", got, err)
		}
		if _, err := p.server.SetShare("double", own); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 9)
		if n := len(p.server.Status().Jobs); n != 1 {
			t.Errorf("%d jobs are left on the host", n)
		}
		p.end(t)
	})
}

// TestForms: how arrays become inputs, and outputs arrays.
func TestForms(t *testing.T) {
	for name, c := range map[string]struct {
		types string // of the input and the output
		node  string
		array *tensor.Tensor
		want  *tensor.Tensor
	}{
		"rows": {"float32[N,2]", "Neg@13", tensor.From([]float32{1, 2, 3, 4}, 2, 2),
			tensor.From([]float32{-1, -2, -3, -4}, 2, 2)},
		"one row at a time": {"float32[1,2]", "Neg@13", tensor.From([]float32{1, 2, 3, 4}, 2, 2),
			tensor.From([]float32{-1, -2, -3, -4}, 2, 2)},
		"two at a time": {"float32[2]", "Neg@13", tensor.From([]float32{1, 2, 3, 4}, 4),
			tensor.From([]float32{-1, -2, -3, -4}, 4)},
		"one more axis": {"float32[2]", "Neg@13", tensor.From([]float32{1, 2, 3, 4}, 2, 2),
			tensor.From([]float32{-1, -2, -3, -4}, 2, 2)},
		"scalars": {"int64[]", "Neg@13", tensor.From([]int64{1, 2}, 2),
			tensor.From([]int64{-1, -2}, 2)},
		"wider in the file": {"bfloat16[N]", "Neg@13", tensor.From([]float32{1, 2.5}, 2),
			tensor.From([]float32{-1, -2.5}, 2)},
	} {
		source := server.Source{Name: "m", Version: 1, Open: func() (*weir.Model, error) {
			return model(fmt.Sprintf(`graph "g" {
			  opset "" 17
			  input %%x: %s
			  %%y: %s = %s (%%x)
			  output %%y
			}`, c.types, c.types, c.node))
		}}
		p := begin(t, t.TempDir(), Options{}, source)
		j, _, err := p.jobs.Make(t.Context(), Asked{Key: "k", Model: "m", Size: -1},
			bytes.NewReader(packed(t, map[string]*tensor.Tensor{"x": c.array})))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.ended(t, j.ID, Done)
		if got := p.result(t, j.ID)["y"]; !tensor.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		p.end(t)
	}
}

// TestUnloaded: a job that runs stops once its model is unloaded, keeps the rows that are computed,
// and goes on when the model is back.
func TestUnloaded(t *testing.T) {
	d, entered, leave := newDoubler(40)
	p := begin(t, t.TempDir(), Options{}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 100)
	<-entered
	if err := p.server.UnloadModel(t.Context(), "double", nil); err != nil {
		t.Fatal(err)
	}
	leave <- struct{}{}
	got := p.until(t, j.ID, func(j *Job) bool { return strings.Contains(j.Reason, "waits") })
	if got.State != Queued || got.Done != 40 || got.Attempts != 0 {
		t.Errorf("without its model it is %+v", got)
	}
	if err := p.server.LoadModel(t.Context(), "double", nil); err != nil {
		t.Fatal(err)
	}
	p.rested(t)
	p.ended(t, j.ID, Done)
	p.doubled(t, j.ID, 100)
	d.once(t, 100)
}

// TestRecalled: a job gives its memory back when a model needs it, keeps the rows that are
// computed, and goes on once there is memory. Time is virtual.
func TestRecalled(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{}, d.source("double", 1))
	need := p.server.Status().Jobs[0].Share.Memory
	p.end(t)
	bubble(t, func(t *testing.T) {
		d, entered, leave := newDoubler(40)
		p := beginIn(t, t.TempDir(), Options{}, server.Options{Host: weir.HostOptions{
			Memory: 2*need + need/2}}, d.source("double", 1), d.source("other", 1))
		if err := p.server.UnloadModel(t.Context(), "other", nil); err != nil {
			t.Fatal(err)
		}
		j := p.double(t, t.Context(), "a", 100)
		<-entered
		loaded := make(chan error, 1)
		go func() { loaded <- p.server.LoadModel(context.Background(), "other", nil) }()
		synctest.Wait() // until the model waits for the job's memory
		leave <- struct{}{}
		leave <- struct{}{} // of the row that may not have been kept
		if err := <-loaded; err != nil {
			t.Error(err)
		}
		got := p.until(t, j.ID, func(j *Job) bool { return j.State == Queued })
		if !strings.Contains(got.Reason, "waits for memory") || got.Done < 39 || got.Done > 40 {
			t.Errorf("without its memory it is %+v", got)
		}
		if err := p.server.UnloadModel(t.Context(), "other", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 100)
		p.end(t)
	})
}

// TestBegin: no job begins before it may. Time is virtual.
func TestBegin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begun := make(chan struct{})
		d := &doubler{count: map[float32]int{}}
		p := begin(t, t.TempDir(), Options{Begin: begun}, d.source("double", 1))
		j := p.double(t, t.Context(), "a", 9)
		time.Sleep(time.Hour)
		if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.State != Queued {
			t.Errorf("before it is %+v, %v", got, err)
		}
		close(begun)
		time.Sleep(time.Second)
		synctest.Wait()
		p.doubled(t, j.ID, 9)
		p.end(t)
	})
}

// TestNoBegin: jobs that never may begin do not hold up the end.
func TestNoBegin(t *testing.T) {
	p := begin(t, t.TempDir(), Options{Begin: make(chan struct{})}, models("digits")...)
	p.ask(t, "POST", digitsPath, pictures(t, 3), "Idempotency-Key", "a").job(t, 201)
	p.end(t)
}
