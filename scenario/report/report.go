package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/echarts"
	"github.com/weirgpu/weir/scenario"
)

//go:embed page.html
var page string

// MaxHolds bounds the intervals of all timelines together, of which each has as many.
const MaxHolds = 20000

// Head says what the page is about.
type Head struct {
	Title   string
	Intro   string   // one paragraph for a person who has not seen weir
	Command string   // the command that makes such a page
	Notes   []string // what to look at
	When    time.Time
}

// Write writes the page. The error is the writer's.
func Write(w io.Writer, h Head, r *scenario.Result) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"pct": func(v float64) float64 { return 100 * v },
		"of":  func(part, whole float64) float64 { return 100 * part / whole },
		"mib": func(n int64) float64 { return float64(n) / (1 << 20) },
		"met": func(v *float64) float64 { return 100 * *v },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("report template: %w", err)
	}
	drawn := charts(r)
	data, err := json.Marshal(drawn)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		Head
		Machine string
		Threads int
		Phases  []phaseTable
		Results []scenario.Phase // where there are several to compare
		LeftOut []scenario.LeftOut
		Memory  bool
		Data    template.JS
		Library template.JS
	}{h, r.Machine, r.Threads, tables(r), compared(r), r.LeftOut, len(drawn.Memory) > 0,
		template.JS(data), template.JS(echarts.Script())})
}

// phaseTable is one phase's table.
type phaseTable struct {
	Name string
	scenario.Phase
	Shared   bool
	Together bool // and compared with alone
}

func tables(r *scenario.Result) []phaseTable {
	var out []phaseTable
	for _, p := range r.Phases {
		out = append(out, phaseTable{Name: Name(p), Phase: p, Shared: p.Mode == scenario.Shared,
			Together: p.Mode != scenario.Solo && p.ThroughputVsSolo > 0})
	}
	return out
}

// compared returns the phases to show side by side, none where there is only one.
func compared(r *scenario.Result) []scenario.Phase {
	if len(r.Results) < 2 {
		return nil
	}
	return r.Results
}

// shortName names a phase in a legend.
func shortName(p scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, " + p.Policy
	case scenario.Threads:
		return "OS, goroutine pools"
	case scenario.Processes:
		return "OS, processes"
	}
	return "alone"
}

// Name names a phase for people.
func Name(p scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, policy " + p.Policy
	case scenario.Threads:
		return "operating system, goroutine pools"
	case scenario.Processes:
		return "operating system, processes (nice 0 and 19)"
	}
	return "each job alone"
}

// chartData is what the page's script draws.
type chartData struct {
	Jobs      []string       `json:"jobs"`
	Policies  []tradeOff     `json:"policies"`
	Timelines []timeline     `json:"timelines"`
	Latencies []latencyChart `json:"latencies"` // by job
	Memory    []memoryChart  `json:"memory"`
}

// tradeOff is where one policy lies between those who wait and those who work.
type tradeOff struct {
	Policy string `json:"policy"`
	// p99 of the jobs that somebody waits for, and speed of the others, over alone
	Latency float64 `json:"latency"`
	Batch   float64 `json:"batch"`
}

type timeline struct {
	Phase string       `json:"phase"`
	Total int          `json:"total"`
	Holds [][5]float64 `json:"holds"` // job, from ms, to ms, revoked, part of the units
}

// latencyChart is the distribution of one job's latencies in every phase, at the same times on a
// logarithmic scale.
type latencyChart struct {
	Job    string         `json:"job"`
	At     []float64      `json:"at"` // ms
	Phases []distribution `json:"phases"`
}

type distribution struct {
	Phase  string    `json:"phase"`
	Within []float64 `json:"within"` // fraction of the requests that were answered within the time
}

type memoryChart struct {
	Phase string      `json:"phase"`
	At    []float64   `json:"at"`   // seconds
	Held  [][]float64 `json:"held"` // MiB, by job
	Caps  []float64   `json:"caps"` // MiB, by job
}

func charts(r *scenario.Result) chartData {
	var c chartData
	for _, j := range r.Phase.Jobs {
		c.Jobs = append(c.Jobs, j.Name)
	}
	for _, p := range compared(r) {
		if p.LatencyVsSolo > 0 && p.BatchVsSolo > 0 {
			c.Policies = append(c.Policies, tradeOff{p.Policy, p.LatencyVsSolo, p.BatchVsSolo})
		}
	}
	for _, p := range r.Phases {
		if p.Mode == scenario.Shared {
			c.Timelines = append(c.Timelines, newTimeline(p, MaxHolds/max(1, len(r.Results))))
			if len(p.Memory) > 0 {
				c.Memory = append(c.Memory, newMemory(p))
			}
		}
	}
	for i, name := range c.Jobs {
		c.Latencies = append(c.Latencies, newLatency(r, i, name))
	}
	return c
}

func newTimeline(p scenario.Phase, most int) timeline {
	t := timeline{Phase: Name(p), Total: len(p.Holds)}
	for _, h := range p.Holds[:min(len(p.Holds), most)] {
		revoked := 0.0
		if h.Revoked {
			revoked = 1
		}
		t.Holds = append(t.Holds, [5]float64{float64(h.Job), ms(h.From), ms(h.To), revoked,
			h.Fraction})
	}
	return t
}

func newMemory(p scenario.Phase) memoryChart {
	const mib = 1 << 20
	m := memoryChart{Phase: Name(p), Held: make([][]float64, len(p.Jobs))}
	for _, j := range p.Jobs {
		m.Caps = append(m.Caps, float64(j.MemoryCapBytes)/mib)
	}
	for _, s := range p.Memory {
		m.At = append(m.At, s.At.Seconds())
		for i, b := range s.Held {
			m.Held[i] = append(m.Held[i], float64(b)/mib)
		}
	}
	return m
}

// latencyPoints is at how many times a distribution is drawn: one for about every pixel column that
// matters.
const latencyPoints = 240

func newLatency(r *scenario.Result, job int, name string) latencyChart {
	c := latencyChart{Job: name}
	lo, hi := time.Duration(math.MaxInt64), time.Duration(1)
	for _, p := range r.Phases {
		for _, d := range p.Jobs[job].Latencies {
			lo, hi = min(lo, max(d, 1)), max(hi, d)
		}
	}
	if lo > hi {
		return c
	}
	first, last := math.Log(ms(lo)), math.Log(ms(hi))
	for i := range latencyPoints {
		c.At = append(c.At, math.Exp(first+(last-first)*float64(i)/(latencyPoints-1)))
	}
	c.At[latencyPoints-1] = ms(hi)
	for _, p := range r.Phases {
		sorted := slices.Sorted(slices.Values(p.Jobs[job].Latencies))
		if len(sorted) == 0 {
			continue
		}
		d := distribution{Phase: shortName(p)}
		n := 0
		for _, at := range c.At {
			for n < len(sorted) && ms(sorted[n]) <= at {
				n++
			}
			d.Within = append(d.Within, float64(n)/float64(len(sorted)))
		}
		c.Phases = append(c.Phases, d)
	}
	return c
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
