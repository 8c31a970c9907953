package pagetest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
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

// writeSmall writes the report of jobs that really run, one of which is refused.
func writeSmall(t *testing.T, w io.Writer) {
	t.Helper()
	g, err := graph.Parse(`graph "tiny" {
  opset "" 17
  input %x: float32[64,64]
  %y: float32[64,64] = MatMul@13 (%x, %x)
  output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	job := func(name string, class share.Class, memory share.Bytes) scenario.Job {
		return scenario.Job{Job: share.Job{Name: name, Iterations: 300,
			Share: share.Share{Memory: memory, Class: class}}, Model: name, Graph: g}
	}
	s := &scenario.Scenario{Jobs: []scenario.Job{job(evilName, share.Latency, 1<<20),
		job(longName, share.Standard, 0), job("nightly", share.Opportunistic, 1)}}
	r, err := scenario.Run(t.Context(), s, scenario.Options{Threads: 1, Solo: true,
		Compare: []scenario.Mode{scenario.Threads}, Policies: []string{"fair", "priority"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Write(w, head("Three jobs share one device"), r); err != nil {
		t.Fatal(err)
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
