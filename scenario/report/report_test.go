package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/echarts"
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

var dataLine = regexp.MustCompile(`(?m)^const data = (.*);$`)

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
	own := strings.Replace(text, echarts.Script(), "", 1)
	if len(own) > 200<<10 || strings.Count(own, "<script") != strings.Count(own, "</script>") {
		t.Errorf("without its library the page has %d bytes, %d scripts begin and %d end", len(own),
			strings.Count(own, "<script"),
			strings.Count(own, "</script>"))
	}
	for _, tag := range []string{"html", "head", "body", "table", "tr", "ul", "div"} {
		if a, b := strings.Count(own, "<"+tag+">")+strings.Count(own, "<"+tag+" "),
			strings.Count(own, "</"+tag+">"); a != b || a == 0 {
			t.Errorf("%d <%s> and %d </%s>", a, tag, b, tag)
		}
	}
	if strings.Contains(own, "src=") || strings.Contains(own, "href=") ||
		strings.Contains(own, "http") {
		t.Error("the page asks for something outside of itself")
	}
	m := dataLine.FindStringSubmatch(own)
	if m == nil {
		t.Fatal("the page carries no data")
	}
	var c chartData
	if err := json.Unmarshal([]byte(m[1]), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Jobs) != 3 || len(c.Timelines) != 2 || len(c.Memory) != 2 || len(c.Latencies) != 3 ||
		len(c.Latencies[0].Phases) != 4 ||
		c.Latencies[2].Phases != nil || c.Jobs[1] != "</script><b>&" {
		t.Errorf("the data is of %d jobs, %d timelines, %d memory charts", len(c.Jobs),
			len(c.Timelines), len(c.Memory))
	}
}

// TestSideBySide: several policies are compared in a table and a picture, one is not.
func TestSideBySide(t *testing.T) {
	met := 0.75
	phase := func(name string, latency, batch float64) scenario.Phase {
		return scenario.Phase{Mode: scenario.Shared, Policy: name, Comparison: scenario.Comparison{
			LatencyVsSolo: latency, BatchVsSolo: batch, Jain: 0.875, TargetsMet: &met},
			Holds: make([]scenario.Hold, MaxHolds)}
	}
	r := &scenario.Result{Results: []scenario.Phase{phase("fair", 1.5, 0.6), phase("idle", 1, 0),
		phase("mps", 2.5, 0.8)},
		LeftOut: []scenario.LeftOut{{Policy: "mig", Reason: "needs partition"}}}
	r.Phases = r.Results
	c := charts(r)
	want := []tradeOff{{"fair", 1.5, 0.6}, {"mps", 2.5, 0.8}}
	if len(c.Policies) != 2 || c.Policies[0] != want[0] || c.Policies[1] != want[1] {
		t.Errorf("drawn are %v, want %v", c.Policies, want)
	}
	for _, l := range c.Timelines {
		if len(l.Holds) != MaxHolds/3 {
			t.Errorf("%d holds of one of three policies", len(l.Holds))
		}
	}
	var b bytes.Buffer
	if err := Write(&b, Head{}, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Side by side", "<td>mps</td><td>2.50</td>", "75.0 %", "0.88",
		"Left out: needs partition"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
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
		Holds: make([]scenario.Hold, MaxHolds+5)}
	for i := range p.Holds {
		p.Holds[i] = scenario.Hold{Job: i % 2, From: time.Duration(i) * time.Millisecond,
			To: time.Duration(i+1) * time.Millisecond, Revoked: i%3 == 0,
			Fraction: 0.5}
	}
	got := newTimeline(p, MaxHolds)
	if len(got.Holds) != MaxHolds || got.Total != MaxHolds+5 {
		t.Errorf("%d of %d holds", len(got.Holds), got.Total)
	}
	if got.Holds[3] != [5]float64{1, 3, 4, 1, 0.5} ||
		got.Holds[4] != [5]float64{0, 4, 5, 0, 0.5} {
		t.Errorf("holds are %v", got.Holds[3:5])
	}
}

// TestLatencyCurves compares the drawn curve with a count, at every point.
func TestLatencyCurves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := &scenario.Result{}
	for n := range 3 {
		ds := make([]time.Duration, 300*n)
		for i := range ds {
			ds[i] = time.Duration(math.Exp(rng.Float64()*12) * 1000)
		}
		r.Phases = append(r.Phases,
			scenario.Phase{Mode: scenario.Solo, Jobs: []scenario.JobResult{{Latencies: ds}}})
	}
	c := newLatency(r, 0, "a")
	if len(c.At) != latencyPoints || len(c.Phases) != 2 {
		t.Fatalf("%d points of %d phases", len(c.At), len(c.Phases))
	}
	for k, phase := range c.Phases {
		ds := r.Phases[k+1].Jobs[0].Latencies
		for i, at := range c.At {
			n := 0
			for _, d := range ds {
				if ms(d) <= at {
					n++
				}
			}
			if want := float64(n) / float64(len(ds)); phase.Within[i] != want {
				t.Fatalf("phase %d within %v ms: %v, want %v", k, at, phase.Within[i], want)
			}
		}
		if phase.Within[latencyPoints-1] != 1 {
			t.Errorf("phase %d ends at %v", k, phase.Within[latencyPoints-1])
		}
	}
	if empty := newLatency(&scenario.Result{}, 0, "b"); empty.Phases != nil {
		t.Error("a curve of nothing")
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
	for _, room := range []int{0, 3000, 1 << 20} {
		if err := Write(&fullDisk{room}, Head{}, r); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", room, err)
		}
	}
}

// TestTooltipsAreText: what a tooltip's formatter returns becomes HTML in the page (ECharts,
// Handbook, Cross Platform and Server, Security Guidelines), so that names must be encoded in it.
func TestTooltipsAreText(t *testing.T) {
	used := regexp.MustCompile(`\$\{[^{}]*data\.(jobs|policies)[^{}]*\}`).FindAllString(page, -1)
	if len(used) < 2 {
		t.Fatalf("the page shows names in %d texts", len(used))
	}
	for _, u := range used {
		if !strings.HasPrefix(u, "${text(") {
			t.Errorf("%s is not encoded", u)
		}
	}
	if !strings.Contains(page, "const text = echarts.format.encodeHTML;") {
		t.Error("text does not encode")
	}
}
