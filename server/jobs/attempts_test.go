package jobs

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
)

// TestAttemptsBeginAnew: a row that is done has attempts count from the beginning: a job that gets
// on does not fail for how often it stopped. Time is virtual.
func TestAttemptsBeginAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		left := map[float32]int{3: 3, 5: 3, 7: 3}
		d := &doubler{count: map[float32]int{}, before: func(v float32) {
			if left[v] > 0 {
				left[v]--
				panic("broken")
			}
		}}
		p := begin(t, t.TempDir(), Options{Attempts: 5}, d.source("double", 1))
		j := p.double(t, t.Context(), "a", 9)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.State != Done {
			t.Fatalf("it is %+v, %v", got, err)
		}
		p.doubled(t, j.ID, 9)
		p.end(t)
	})
}

// TestOthersThatRest: a job of another account that may not run yet takes no turn.
func TestOthersThatRest(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	p := begin(t, t.TempDir(), Options{Part: time.Nanosecond, Slice: time.Nanosecond},
		d.source("double", 1))
	all := []auth.Grant{{Pattern: "*", Rights: auth.Job}}
	hold := p.double(t, auth.With(t.Context(), &auth.Account{Name: "eve", Grants: all}), "x", 9)
	p.ended(t, hold.ID, Done)
	bob := auth.With(t.Context(), &auth.Account{Name: "bob", Grants: all})
	if err := p.state.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec("UPDATE jobs_jobs SET state = ?, rests = ? WHERE id = ?", Queued,
			int64(math.MaxInt64), hold.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	j := p.double(t, bob, "a", 20)
	p.ended(t, j.ID, Done)
	lines, err := p.jobs.Lines(bob, j.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, l := range lines {
		if strings.HasPrefix(l.Text, "running") {
			runs++
		}
	}
	if runs != 1 {
		t.Errorf("it began %d times beside a job that rests: %+v", runs, lines)
	}
}

// TestWhole: parts that do not have each row once make no result.
func TestWhole(t *testing.T) {
	job := &Job{ID: 1, Rows: 9}
	for name, c := range map[string]struct {
		parts []part
		right bool
	}{
		"all":      {[]part{{first: 0, rows: 4}, {first: 4, rows: 5}}, true},
		"none":     {nil, false},
		"a gap":    {[]part{{first: 0, rows: 4}, {first: 5, rows: 4}}, false},
		"overlap":  {[]part{{first: 0, rows: 5}, {first: 4, rows: 4}}, false},
		"an end":   {[]part{{first: 0, rows: 8}}, false},
		"too many": {[]part{{first: 0, rows: 10}}, false},
		"later":    {[]part{{first: 1, rows: 9}}, false},
	} {
		if err := whole(job, c.parts); (err == nil) != c.right ||
			err != nil && !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelledAtTheEnd: a job that is cancelled while its result is made stays cancelled.
func TestCancelledAtTheEnd(t *testing.T) {
	d, entered, leave := newDoubler(5)
	p := begin(t, t.TempDir(), Options{}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 9)
	<-entered
	if err := p.jobs.Cancel(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	a := &attempt{j: p.jobs, job: j}
	err := p.state.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := a.done(tx, &store.Part{})
		return err
	})
	if !errors.Is(err, errGone) {
		t.Errorf("it is done: %v", err)
	}
	leave <- struct{}{}
	p.ended(t, j.ID, Cancelled)
}

// TestCloseInAHurry: an end that may not wait gives up the rows that are under way.
func TestCloseInAHurry(t *testing.T) {
	dir := t.TempDir()
	d, entered, leave := newDoubler(40)
	p := begin(t, dir, Options{Part: time.Hour}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 100)
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	given := make(chan error, 1)
	p.jobs.mu.Lock()
	up := p.jobs.cancel
	p.jobs.cancel = func(why error) {
		up(why)
		given <- why
	}
	p.jobs.mu.Unlock()
	closed := make(chan struct{})
	go func() { p.jobs.Close(ctx); close(closed) }()
	select {
	case why := <-given:
		if !errors.Is(why, errStopped) {
			t.Errorf("given up: %v", why)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for its rows")
	}
	leave <- struct{}{}
	<-closed
	got, err := p.jobs.Get(t.Context(), j.ID)
	if err != nil || got.State != Queued || got.Done > 40 || got.Attempts != 0 {
		t.Errorf("stopped it is %+v, %v", got, err)
	}
}

// wide is a model of which each row of the result has 4 MiB.
func wide(d *doubler) server.Source {
	return server.Source{Name: "double", Version: 1, Open: func() (*weir.Model, error) {
		return model(`graph "wide" {
		  opset "" 17
		  opset "test" 1
		  input %x: float32[N]
		  const %axes: int64[1] = {1}
		  const %to: int64[2] = {1, 1048576}
		  %y: float32[N] = test:Double@1 (%x)
		  %u: float32[N,1] = Unsqueeze@13 (%y, %axes)
		  %z: float32[N,1048576] = Expand@13 (%u, %to)
		  output %z
		}`, weir.WithOperators(d.operator()))
	}}
}

// attempting is a job's attempt that computes what it is given, on a server with so much memory.
func attempting(t *testing.T, memory weir.Bytes, src server.Source) *attempt {
	t.Helper()
	p := beginIn(t, t.TempDir(), Options{Begin: make(chan struct{})},
		server.Options{Host: weir.HostOptions{Memory: memory}}, src)
	b, err := p.server.Beside(t.Context(), src.Name, "", tenant)
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{j: p.jobs, job: &Job{Outputs: []string{"z"}}, model: b, names: b.Outputs(),
		in: &input{}}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestOneByOne: rows for which there is no memory together are computed one by one, each once, and
// so are those that come after them.
func TestOneByOne(t *testing.T) {
	d := &doubler{count: map[float32]int{}}
	a := attempting(t, 24*weir.MiB, wide(d))
	clear(d.count)
	if err := a.compute(t.Context(), weir.Inputs{"x": numbers(8)}, 8); err != nil || !a.single {
		t.Fatalf("%v, one by one: %t", err, a.single)
	}
	const row = 4 << 20
	if a.rows != 8 || len(d.count) != 8 || a.kept[0].Len() != 8*row {
		t.Fatalf("%d rows of %d bytes, of %v", a.rows, a.kept[0].Len(), d.count)
	}
	for i, want := range tensor.As[float32](numbers(8)) {
		got := math.Float32frombits(binary.LittleEndian.Uint32(a.kept[0].Bytes()[i*row:]))
		if got != 2*want || d.count[want] != 1 {
			t.Errorf("row %d is %v, computed %d times", i, got, d.count[want])
		}
	}
}

// TestNeverFits: a row that needs more than the device has fails its job, which else would wait for
// ever.
func TestNeverFits(t *testing.T) {
	a := attempting(t, 4*weir.MiB, server.Source{Name: "large", Version: 1,
		Open: func() (*weir.Model, error) {
			return model(`graph "large" {
			  opset "" 17
			  input %x: float32[N,M]
			  %z: float32[N,M] = Relu@14 (%x)
			  output %z
			}`)
		}})
	in := weir.Inputs{"x": tensor.From(make([]float32, 2<<20), 2, 1<<20)}
	err := a.compute(t.Context(), in, 2)
	if !errors.Is(err, weir.ErrMemory) || errors.Is(err, errWaits) || !lasting(err) {
		t.Errorf("%v", err)
	}
}

// TestManyBytes: results are written once they are many bytes, however seldom that is otherwise:
// they are held in memory until then.
func TestManyBytes(t *testing.T) {
	d, entered, leave := newDoubler(8)
	p := begin(t, t.TempDir(), Options{Part: time.Hour}, wide(d))
	j := p.double(t, t.Context(), "a", 9)
	<-entered
	if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.Done < 4 {
		t.Errorf("after 7 rows of 4 MiB %d are on the disk (%v)", got.Done, err)
	}
	leave <- struct{}{}
	if err := p.jobs.Cancel(t.Context(), j.ID); err != nil {
		t.Error(err)
	}
}

// TestReasonIsOver: why a job waited is said no more once it runs.
func TestReasonIsOver(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	d := &doubler{count: map[float32]int{}, before: func(v float32) {
		if v == 5 || v == 7 {
			entered <- struct{}{}
			<-leave
		}
	}}
	p := begin(t, t.TempDir(), Options{}, d.source("double", 1))
	j := p.double(t, t.Context(), "a", 9)
	<-entered
	if err := p.server.UnloadModel(t.Context(), "double", nil); err != nil {
		t.Fatal(err)
	}
	leave <- struct{}{}
	got := p.until(t, j.ID, func(j *Job) bool { return j.State == Queued })
	if !strings.Contains(got.Reason, "waits") {
		t.Errorf("without its model it is %+v", got)
	}
	if err := p.server.LoadModel(t.Context(), "double", nil); err != nil {
		t.Fatal(err)
	}
	p.rested(t)
	<-entered
	if got, err := p.jobs.Get(t.Context(), j.ID); err != nil || got.State != Running ||
		got.Reason != "" {
		t.Errorf("it runs, and is %+v, %v", got, err)
	}
	leave <- struct{}{}
	p.ended(t, j.ID, Done)
}
