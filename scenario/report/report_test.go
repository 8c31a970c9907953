package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

const tiny = `graph "tiny" {
  opset "" 17
  input %x: float32[1,8]
  %y: float32[1,8] = Relu@14 "act" (%x)
  output %y
}`

// result is that of a real run: two jobs that work and one that is refused, under names that a page
// has to escape.
func result(t *testing.T) *scenario.Result {
	t.Helper()
	g, err := graph.Parse(tiny)
	if err != nil {
		t.Fatal(err)
	}
	job := func(name string, memory share.Bytes) scenario.Job {
		return scenario.Job{Job: share.Job{Name: name, Iterations: 20,
			Share: share.Share{Memory: memory}}, Model: name, Graph: g}
	}
	s := &scenario.Scenario{Jobs: []scenario.Job{job("a", 0), job("</script><b>&", 1<<20),
		job("too <big>", 1)}}
	r, err := scenario.Run(t.Context(), s,
		scenario.Options{Threads: 1, Solo: true, Compare: []scenario.Mode{scenario.Threads},
			Policies: []string{"fair", "priority"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var dataLine = regexp.MustCompile(
	`(?m)^<script type="application/json" id="data">(.*)</script>$`)

// TestWrite holds that the page is whole, carries its data as JSON, escapes names and needs no
// network.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	h := Head{Title: "A & B", Intro: "intro", Command: "weir demo", Notes: []string{"note one"},
		When: time.Unix(0, 0)}
	r := result(t)
	if err := Write(&b, h, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"<title>A &amp; B</title>", "note one", "</html>",
		"weir, policy fair", "weir, policy priority", "operating system, goroutine pools",
		"each job alone", "&lt;/script&gt;&lt;b&gt;&amp;", "too &lt;big&gt;", "refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if len(text) > 200<<10 || strings.Count(text, "<script") != 2 ||
		strings.Count(text, "</script>") != 2 {
		t.Errorf("the page has %d bytes, %d scripts begin and %d end", len(text),
			strings.Count(text, "<script"), strings.Count(text, "</script>"))
	}
	for _, tag := range []string{"html", "head", "body", "table", "tr", "ul", "details", "svg"} {
		if a, b := strings.Count(text, "<"+tag+">")+strings.Count(text, "<"+tag+" "),
			strings.Count(text, "</"+tag+">"); a != b || a == 0 {
			t.Errorf("%d <%s> and %d </%s>", a, tag, b, tag)
		}
	}
	own := strings.ReplaceAll(text, `"http://www.w3.org/2000/svg"`, "") // a name, never fetched
	if strings.Contains(own, "src=") || strings.Contains(own, "href=") ||
		strings.Contains(own, "http:") || strings.Contains(own, "https:") {
		t.Error("the page asks for something outside of itself")
	}
	m := dataLine.FindStringSubmatch(own)
	if m == nil {
		t.Fatal("the page carries no data")
	}
	var d scriptData
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Jobs) != 3 || len(d.Timelines) != 2 || d.Jobs[1] != "</script><b>&" {
		t.Errorf("the data is of the jobs %q and %d timelines", d.Jobs, len(d.Timelines))
	}
	// Each of them for a wide page and for a narrow one: the policies' trade-off, two of
	// latencies, two timelines and two of memory.
	for _, class := range []string{"chart wide", "chart narrow"} {
		if n := strings.Count(text, `<svg class="`+class) +
			strings.Count(text, `class="`+class+`" viewBox`) -
			strings.Count(text, `<svg class="`+class+`" viewBox`); n < 6 || n > 7 {
			t.Errorf("%d charts of class %s", n, class)
		}
	}
}

// TestSideBySide: several policies are compared in a table and a picture, one is not.
func TestSideBySide(t *testing.T) {
	met := 0.75
	phase := func(name string, latency, batch float64) scenario.Phase {
		return scenario.Phase{Mode: scenario.Shared, Policy: name, Comparison: scenario.Comparison{
			LatencyVsSolo: latency, BatchVsSolo: batch, Jain: 0.875, TargetsMet: &met},
			Holds: make([]scenario.Hold, MaxHolds), Jobs: make([]scenario.JobResult, 1)}
	}
	r := &scenario.Result{Results: []scenario.Phase{phase("fair", 1.5, 0.6), phase("idle", 1, 0),
		phase("mps", 2.5, 0.8)},
		LeftOut: []scenario.LeftOut{{Policy: "mig", Reason: "needs partition"}}}
	r.Phase = r.Results[0]
	alone := scenario.Phase{Mode: scenario.Solo, Jobs: r.Phase.Jobs}
	r.Phases = []scenario.Phase{r.Results[0], alone, r.Results[1], r.Results[2]}
	drawn := string(tradeOff(r))
	for _, want := range []string{"fair: p99 1.50 of alone, others 0.60 of alone",
		"mps: p99 2.50 of alone, others 0.80 of alone", ">fair<", ">mps<"} {
		if strings.Count(drawn, want) != 2 {
			t.Errorf("%q is drawn %d times", want, strings.Count(drawn, want))
		}
	}
	// The colour of a policy is that of its phase, in every chart.
	if !strings.Contains(drawn, `class="mark c0"`) || !strings.Contains(drawn, `class="mark c3"`) {
		t.Error("a policy is not in the colour of its phase")
	}
	if strings.Contains(drawn, "idle") {
		t.Error("a policy is drawn under which the others do not run")
	}
	_, d := timelines(r)
	for _, l := range d.Timelines {
		if len(l.Holds) != MaxHolds/3 {
			t.Errorf("%d holds of one of three policies", len(l.Holds))
		}
	}
	var b bytes.Buffer
	if err := Write(&b, Head{}, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Side by side", `<th scope="row">mps</th><td data-label="p99 of alone">2.50</td>`, "75.0 %", "0.88",
		"Left out: needs partition"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(b.String(), "makespan") {
		t.Error("a column has no figure")
	}
	b.Reset()
	r.Results = r.Results[:1]
	if err := Write(&b, Head{}, r); err != nil || strings.Contains(b.String(), "Side by side") {
		t.Errorf("one policy is compared, %v", err)
	}
}

// TestTimelineIsBounded gives a phase more holds than a browser can move.
func TestTimelineIsBounded(t *testing.T) {
	p := scenario.Phase{Mode: scenario.Shared, Policy: "fair",
		Jobs: make([]scenario.JobResult, 2), Holds: make([]scenario.Hold, MaxHolds+5)}
	for i := range p.Holds {
		p.Holds[i] = scenario.Hold{Job: i % 2, From: time.Duration(i) * time.Millisecond,
			To: time.Duration(i+1) * time.Millisecond, Revoked: i%3 == 0,
			Fraction: 0.5}
	}
	got := newTimeline(&p, MaxHolds)
	if len(got.Holds) != MaxHolds || got.Shown != drawnHolds {
		t.Errorf("%d holds, the first %v ms are shown", len(got.Holds), got.Shown)
	}
	if got.Holds[3] != [5]float64{1, 3, 4, 1, 0.5} ||
		got.Holds[4] != [5]float64{0, 4, 5, 0, 0.5} {
		t.Errorf("holds are %v", got.Holds[3:5])
	}
}

// TestPercentiles compares the drawn curve with a count, at every point.
func TestPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 300, 5000} {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(rng.Float64() * 12)
		}
		s := curve(values)
		if len(s.X) != percentilePoints || s.Y[percentilePoints-1] != slices.Max(values) ||
			s.Y[0] != slices.Min(values) {
			t.Fatalf("of %d values %d points, from %v to %v", n, len(s.X), s.Y[0],
				s.Y[len(s.Y)-1])
		}
		for k, u := range s.X[:percentilePoints-1] {
			within, below := 0, 0
			for _, v := range values {
				if v <= s.Y[k] {
					within++
				}
				if v < s.Y[k] {
					below++
				}
			}
			// The least value that so many are within.
			q := (1 - math.Pow(10, -u)) * float64(n)
			if float64(within) < q-1e-9 || below > 0 && float64(below) >= q+1e-9 {
				t.Fatalf("%d of %d values are within %v and %d below, want %v", within, n, s.Y[k],
					below, q)
			}
		}
	}
	if s := curve(nil); s.X != nil {
		t.Error("a curve of nothing")
	}
}

// many is a result of so many jobs, of which each holds the device longer than the one before.
func many(jobs int) *scenario.Result {
	p := scenario.Phase{Mode: scenario.Shared, Policy: "fair"}
	for i := range jobs {
		p.Jobs = append(p.Jobs, scenario.JobResult{Name: fmt.Sprintf("job-%02d", i),
			Class: share.Class(i % 2), DeviceSeconds: float64(i + 1), IterationsPerS: 1,
			MemoryPeakBytes: 1 << 20, Latencies: []time.Duration{time.Millisecond},
			Latency: scenario.Latency{P50: 1, P99: 1, Max: 1}})
		p.Holds = append(p.Holds, scenario.Hold{Job: i, From: time.Duration(i) * time.Millisecond,
			To: time.Duration(i+1) * time.Millisecond, Fraction: 1})
	}
	p.Memory = []scenario.MemorySpan{{Held: make([]share.Bytes, jobs)}}
	for i := range jobs {
		p.Memory[0].Held[i] = share.Bytes(i) << 20
	}
	return &scenario.Result{Phase: p, Phases: []scenario.Phase{p}, Results: []scenario.Phase{p}}
}

// TestManyJobs: of fifty jobs, those that matter most are shown by name, the rest as one, and the
// table of all is folded below one of the classes.
func TestManyJobs(t *testing.T) {
	r := many(50)
	rows := rowsOf(&r.Phase)
	if slices.Max(rows) != MaxJobs-1 || rows[0] != MaxJobs-1 || rows[39] != 0 || rows[49] != 10 {
		t.Errorf("rows are %v", rows)
	}
	lines := byMemory([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5, 0})
	if fmt.Sprint(lines) != "[[0] [2] [4] [5] [6] [7] [8] [1 3 9]]" {
		t.Errorf("lines are of the jobs %v", lines)
	}
	var b bytes.Buffer
	if err := Write(&b, Head{}, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for want, n := range map[string]int{"39 others": 4, "43 others": 4, "All 50 jobs": 1,
		`<th scope="row">standard</th><td data-label="jobs">25</td>`: 1,
		"Of 50 jobs, the 12 whose 99th":                              1} {
		if strings.Count(text, want) != n {
			t.Errorf("%q stands %d times in the page, want %d", want, strings.Count(text, want), n)
		}
	}
	if n := strings.Count(string(ranges(r).Chart), ">job-"); n != 2*MaxJobs {
		t.Errorf("%d names in the chart of ranges", n)
	}
	// Up to the bound, all are shown one by one.
	if rows := rowsOf(&many(MaxJobs).Phase); !slices.IsSorted(rows) ||
		rows[MaxJobs-1] != MaxJobs-1 {
		t.Errorf("rows of few jobs are %v", rows)
	}
}

type fullDisk struct{ left int }

var errFull = errors.New("disk full")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteReportsTheWriter(t *testing.T) {
	r := result(t)
	for _, room := range []int{0, 3000, 30000} {
		if err := Write(&fullDisk{room}, Head{}, r); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", room, err)
		}
	}
}

// TestNoAnswer holds that a job which answered nothing is not shown to have answered at once.
func TestNoAnswer(t *testing.T) {
	none := scenario.JobResult{Name: "none"}
	some := scenario.JobResult{Name: "some", Latency: scenario.Latency{P50: 1, P99: 2, Max: 3}}
	rows := jobTable(&scenario.Phase{Jobs: []scenario.JobResult{none, some}}).Rows
	got := [][]string{rows[0].Cells[4:6], rows[1].Cells[4:6]}
	if fmt.Sprintf("%q", got) != `[["" ""] ["1.00" "2.00"]]` {
		t.Errorf("p50 and p99: %q", got)
	}
}

// TestResidency: jobs whose weights leave the device have a row each, long histories no more bars
// than can be seen, and long lists end.
func TestResidency(t *testing.T) {
	p := scenario.Phase{Mode: scenario.Shared, Policy: "fair", Eviction: "lru",
		Wall: time.Second, Jobs: []scenario.JobResult{{Name: "stays"}, {Name: "bends"}}}
	j := &p.Jobs[1]
	for i := range 5000 {
		at := time.Duration(i) * 200 * time.Microsecond
		j.Residency = append(j.Residency, scenario.Residency{From: at, Fraction: float64(i % 2)})
		p.Switches = append(p.Switches, scenario.Switch{AtS: at.Seconds(), Job: "bends", Bytes: 1})
	}
	r := &scenario.Result{Phase: p, Results: []scenario.Phase{p, {Jobs: p.Jobs[:1]}}}
	got := residencies(r)
	if len(got) != 1 || got[0].Told != "The first 500 of 5000 switches" ||
		len(got[0].Switches.Rows) != maxSwitches {
		t.Fatalf("%d phases, %s", len(got), got[0].Told)
	}
	if bars := residencyBars(&p, j); len(bars) == 0 || len(bars) > maxBars {
		t.Errorf("%d bars", len(bars))
	}
	j.Residency = j.Residency[:3] // none, all from 0.2 ms, none from 0.4 ms
	if bars := residencyBars(&p, j); len(bars) != 1 || bars[0].From != 0.2 || bars[0].To != 0.4 ||
		bars[0].Height != 1 {
		t.Errorf("bars %+v", bars)
	}
}

// TestSharedWeights: what jobs have of their weights together stands beside what each held, and
// counts once for their class.
func TestSharedWeights(t *testing.T) {
	r := many(2)
	for i := range r.Phase.Jobs {
		j := &r.Phase.Jobs[i]
		j.Class, j.MemoryPeakBytes, j.SharedBytes, j.SharedWeights = 0, 3<<20, 2<<20, "of m"
	}
	if c := classRow(&r.Phase, 0); c.Cells[len(c.Cells)-1] != "4.0" {
		t.Errorf("the class held %v MiB, want 4.0", c.Cells[len(c.Cells)-1])
	}
	jobs := jobTable(&r.Phase)
	at := slices.Index(jobs.Heads, "of it shared MiB") - 1
	if at < 1 || jobs.Rows[0].Cells[at] != "2.0" || jobs.Rows[0].Cells[at-1] != "3.0" {
		t.Errorf("of %v a job has %v", jobs.Heads, jobs.Rows[0].Cells)
	}
}
