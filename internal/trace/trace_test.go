package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

// still is a clock that stands.
type still time.Duration

func (s still) Now() time.Duration { return time.Duration(s) }

// file is the JSON Object Format as a reader of it sees it.
type file struct {
	DisplayTimeUnit string `json:"displayTimeUnit"`
	OtherData       struct {
		Dropped string `json:"dropped"`
	} `json:"otherData"`
	TraceEvents []record `json:"traceEvents"`
}

type record struct {
	Ph   string         `json:"ph"`
	Pid  int            `json:"pid"`
	Tid  int            `json:"tid"`
	Name string         `json:"name"`
	Ts   json.Number    `json:"ts"`
	Dur  json.Number    `json:"dur"`
	Cat  string         `json:"cat"`
	ID   string         `json:"id"`
	Bp   string         `json:"bp"`
	S    string         `json:"s"`
	Args map[string]any `json:"args"`
}

// read writes r's trace and parses it strictly.
func read(t testing.TB, r *Recorder) file {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&b)
	dec.DisallowUnknownFields()
	var f file
	if err := dec.Decode(&f); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	return f
}

// events returns what is not metadata.
func (f file) events() (out []record) {
	for _, e := range f.TraceEvents {
		if e.Ph != "M" {
			out = append(out, e)
		}
	}
	return out
}

func TestWriteJSON(t *testing.T) {
	r := New(still(5), 100)
	dev := r.Track("cpu:0", "lease")
	job := r.Track("jobs", "detector")
	r.Span(
		dev,
		"conv \"1\"\n",
		1500,
		4001,
		Int("chunks", -3),
		Float("gflops", 2.5),
		String("kernel", "dïrect"),
	)
	r.Span(job, "backwards", 10, 5)
	r.Instant(job, "revoked", 2*time.Second+1)
	r.Counter(job, "held_bytes", -1, 1<<40)
	r.FlowStart(job, "request", math.MaxUint64, 0)
	r.FlowStep(dev, "request", math.MaxUint64, 1)
	r.FlowEnd(dev, "request", math.MaxUint64, 2)

	f := read(t, r)
	want := []record{
		{Ph: "X", Pid: 2, Tid: 2, Name: "conv \"1\"\n", Ts: "1.500", Dur: "2.501",
			Args: map[string]any{"chunks": -3.0, "gflops": 2.5, "kernel": "dïrect"}},
		{Ph: "X", Pid: 3, Tid: 3, Name: "backwards", Ts: "0.010", Dur: "0.000"},
		{Ph: "i", Pid: 3, Tid: 3, Name: "revoked", Ts: "2000000.001", S: "t"},
		{
			Ph:   "C",
			Pid:  3,
			Tid:  3,
			Name: "held_bytes",
			Ts:   "-0.001",
			Args: map[string]any{"value": float64(1 << 40)},
		},
		{
			Ph:   "s",
			Pid:  3,
			Tid:  3,
			Name: "request",
			Ts:   "0.000",
			Cat:  "flow",
			Bp:   "e",
			ID:   "0xffffffffffffffff",
		},
		{
			Ph:   "t",
			Pid:  2,
			Tid:  2,
			Name: "request",
			Ts:   "0.001",
			Cat:  "flow",
			Bp:   "e",
			ID:   "0xffffffffffffffff",
		},
		{
			Ph:   "f",
			Pid:  2,
			Tid:  2,
			Name: "request",
			Ts:   "0.002",
			Cat:  "flow",
			Bp:   "e",
			ID:   "0xffffffffffffffff",
		},
	}
	if got := fmt.Sprintf("%+v", f.events()); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if f.DisplayTimeUnit != "ms" || f.OtherData.Dropped != "0" || r.Len() != 7 || r.Now() != 5 {
		t.Errorf(
			"unit %q, dropped %q, %d events, time %v",
			f.DisplayTimeUnit,
			f.OtherData.Dropped,
			r.Len(),
			r.Now(),
		)
	}
}

func TestTracks(t *testing.T) {
	r := New(still(0), 1)
	a, b, c := r.Track("jobs", "a"), r.Track("jobs", "b"), r.Track("cpu:0", "a")
	if r.Track("jobs", "a") != a || a == b || a == c || a == (Track{}) || a.process != b.process ||
		a.process == c.process {
		t.Errorf("tracks %v %v %v", a, b, c)
	}
	var got []string
	for _, e := range read(t, r).TraceEvents {
		got = append(got, fmt.Sprint(e.Pid, e.Tid, e.Name, e.Args))
	}
	want := "2 2 process_name map[name:jobs]|2 2 process_sort_index map[sort_index:1]|" +
		"2 2 thread_name map[name:a]|2 2 thread_sort_index map[sort_index:1]|" +
		"2 3 thread_name map[name:b]|2 3 thread_sort_index map[sort_index:2]|" +
		"3 4 process_name map[name:cpu:0]|3 4 process_sort_index map[sort_index:2]|" +
		"3 4 thread_name map[name:a]|3 4 thread_sort_index map[sort_index:3]"
	if s := strings.Join(
		got,
		"|",
	); strings.ReplaceAll(
		s,
		" ",
		"",
	) != strings.ReplaceAll(
		want,
		" ",
		"",
	) {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestFull(t *testing.T) {
	r := New(still(0), 3)
	for i := range 10 {
		r.Instant(Track{}, fmt.Sprint(i), 0)
	}
	r.Counter(Track{}, "bad", 0, math.NaN())
	r.Counter(Track{}, "bad", 0, math.Inf(-1))
	f := read(t, r)
	if e := f.events(); len(e) != 3 || e[0].Name != "0" || e[2].Name != "2" {
		t.Errorf("kept %v, want the first three", e)
	}
	if r.Len() != 3 || r.Dropped() != 9 || f.OtherData.Dropped != "9" {
		t.Errorf("%d kept, %d dropped, %q in the file", r.Len(), r.Dropped(), f.OtherData.Dropped)
	}
	if got := len(New(still(0), -1).events); got != DefaultCapacity {
		t.Errorf("default capacity %d", got)
	}
}

func TestArgs(t *testing.T) {
	r := New(still(0), 10)
	r.Instant(Track{}, "many", 0, Int("a", 1), Int("b", 2), Int("c", 3), Int("d", 4), Int("e", 5))
	r.Instant(
		Track{},
		"odd",
		0,
		Float("nan", math.NaN()),
		Float("inf", math.Inf(1)),
		String("bytes", "\xff\x00<"),
		Float("tiny", 5e-324),
	)
	e := read(t, r).events()
	if len(e[0].Args) != MaxArgs {
		t.Errorf("%d arguments kept: %v", len(e[0].Args), e[0].Args)
	}
	if a := e[1].Args; a["nan"] != "NaN" || a["inf"] != "+Inf" || a["bytes"] != "\ufffd\x00<" ||
		a["tiny"] != 5e-324 {
		t.Errorf("%v", a)
	}
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	track := r.Track("a", "b")
	r.Span(track, "x", 0, 1, Int("a", 1))
	r.Instant(track, "x", 0)
	r.Counter(track, "x", 0, 1)
	r.FlowStart(track, "x", 1, 0)
	if r.Len() != 0 || r.Dropped() != 0 || r.Now() != 0 {
		t.Error("a nil recorder has recorded")
	}
	if f := read(t, r); len(f.TraceEvents) != 0 {
		t.Errorf("%v", f.TraceEvents)
	}
}

func TestConcurrentRecording(t *testing.T) {
	const goroutines, each, capacity = 8, 500, 3000
	r := New(still(0), capacity)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			track := r.Track("jobs", fmt.Sprint(g))
			for i := range each {
				r.Span(
					track,
					"step",
					time.Duration(i),
					time.Duration(i+1),
					Int("g", int64(g)),
					Int("i", int64(i)),
				)
				if i%100 == 0 {
					if err := r.WriteJSON(io.Discard); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	events := read(t, r).events()
	if len(events) != capacity || r.Dropped() != goroutines*each-capacity {
		t.Fatalf("%d kept, %d dropped", len(events), r.Dropped())
	}
	last := map[float64]float64{}
	for _, e := range events {
		g, i := e.Args["g"].(float64), e.Args["i"].(float64)
		if e.Ts != json.Number(fmt.Sprintf("%.3f", i/1000)) {
			t.Fatalf("event %v is torn", e)
		}
		if l, ok := last[g]; ok && i <= l {
			t.Fatalf("goroutine %v: event %v after %v", g, i, l)
		}
		last[g] = i
	}
}

// fullDisk takes some bytes and then refuses.
type fullDisk struct{ left int }

var errFull = errors.New("no space left")

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteFails(t *testing.T) {
	r := New(still(0), 5000)
	for range 5000 {
		r.Instant(Track{}, "an event of some length", 0)
	}
	for _, left := range []int{0, 100_000} {
		if err := r.WriteJSON(&fullDisk{left: left}); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: error %v", left, err)
		}
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	r := New(still(0), 500)
	track := r.Track("jobs", "a")
	var i int64
	// More runs than events, so that the full recorder is measured too.
	if n := testing.AllocsPerRun(1000, func() {
		i++
		r.Span(
			track,
			"step",
			r.Now(),
			r.Now(),
			Int("i", i),
			Float("f", float64(i)),
			String("s", "text"),
		)
		r.Counter(track, "held", 0, float64(i))
		r.FlowStart(track, "f", uint64(i), 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzWriteJSON(f *testing.F) {
	f.Add("name", "key", "value", int64(1), int64(2), 1.5)
	f.Add(
		"\x00\"\\",
		"\xff",
		"\u2028</script>",
		int64(math.MinInt64),
		int64(math.MaxInt64),
		math.NaN(),
	)
	f.Fuzz(func(t *testing.T, name, key, value string, from, to int64, x float64) {
		r := New(still(0), 10)
		track := r.Track(name, value)
		r.Span(
			track,
			name,
			time.Duration(from),
			time.Duration(to),
			String(key, value),
			Float(key, x),
		)
		r.Counter(track, name, time.Duration(from), x)
		r.FlowEnd(track, name, uint64(to), time.Duration(to))
		want := 3 - int(r.Dropped())
		if got := read(t, r).events(); len(got) != want {
			t.Errorf("%d events, want %d", len(got), want)
		}
	})
}

func BenchmarkSpan(b *testing.B) {
	r := New(still(0), 1<<16)
	track := r.Track("jobs", "a")
	b.ReportAllocs()
	for b.Loop() {
		r.claimed.CompareAndSwap(1<<16, 0) // never full
		r.Span(track, "step", 1, 2, Int("i", 3))
	}
}
