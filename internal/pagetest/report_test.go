package pagetest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/scenario/report"
	"github.com/weirgpu/weir/share"
)

// Names that would break a page that does not expect them.
const (
	evilName = `</script><script>document.title="taken"</script>`
	longName = "a-name-that-somebody-made-of-a-model-a-data-set-and-the-settings-of-an-experiment"
)

func head(title string) report.Head {
	return report.Head{Title: title, Intro: "What jobs get of one device, alone and " +
		"together, under each policy.", Command: "weir share",
		Notes: []string{"A note about what to see."},
		When:  time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)}
}

// writeSmall writes the report of jobs in virtual time, one of which is refused. Of times that
// are measured the page would be another in each run.
func writeSmall(t *testing.T, w io.Writer) {
	t.Helper()
	s, err := scenario.Parse(strings.NewReader(`device: v100
duration: 3s
seed: 1
jobs:
  - {name: '` + evilName + `', class: latency, iteration: 3ms, arrival: {poisson: 40}}
  - {name: ` + longName + `, iteration: 7ms}
  - {name: nightly, class: opportunistic, iteration: 9ms, memory: 1TiB}
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Simulate(t.Context(), s, scenario.Options{Solo: true,
		Policies: []string{"fair", "priority"}})
	if err != nil {
		t.Fatal(err)
	}
	beside(r)
	if err := report.Write(w, head("Three jobs share one device"), r); err != nil {
		t.Fatal(err)
	}
}

// beside adds to a result what only a run in real time has: memory as it was held, and a phase
// without a broker.
func beside(r *scenario.Result) {
	threads := r.Results[0]
	threads.Mode, threads.Policy, threads.Holds = scenario.Threads, "", nil
	r.Phases = append(r.Phases, threads)
	for i := range r.Results {
		p := &r.Results[i]
		for at := range 30 {
			span := scenario.MemorySpan{At: time.Duration(at) * 100 * time.Millisecond}
			for k := range p.Jobs {
				span.Held = append(span.Held, share.Bytes(at*k%7)<<20)
			}
			p.Memory = append(p.Memory, span)
		}
	}
}

// writeMany writes the report of fifty jobs in virtual time.
func writeMany(t *testing.T, w io.Writer) {
	t.Helper()
	var b strings.Builder
	b.WriteString("device: v100\nduration: 4s\nseed: 3\njobs:\n")
	for i := range 50 {
		class := []string{"latency", "standard", "opportunistic"}[i%3]
		fmt.Fprintf(&b, "  - {name: %s-%02d, class: %s, iteration: %dms, arrival: {poisson: %d}}\n",
			longName, i, class, 1+i%7, 2+i%3)
	}
	s, err := scenario.Parse(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Simulate(t.Context(), s, scenario.Options{Solo: true,
		Policies: []string{"fair", "priority", "orion", "tgs"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Write(w, head("Fifty jobs share one device"), r); err != nil {
		t.Fatal(err)
	}
}
