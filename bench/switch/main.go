// Command switch measures how long models take to come back whose weights have left the device, and
// how soon memory is free that is asked back:
//
//	go run ./bench/switch               # minutes; wants a Python that has onnxruntime
//	go run ./bench/switch -json > bench/results/DATE-switch.json
//
// Groups, each of which -only runs alone:
//
//	near    two models in turn, in memory for one of them, a hundred times each way: from the
//	        request to the output, the eviction of the other one included, over the longer of the
//	        model's own run when resident and the arrival of its weights alone. The weights are
//	        mapped from the plan cache and in the page cache. What is compared is measured in each
//	        round.
//	peer    what the same switch adds to a run of the model, over what a new process of ONNX
//	        Runtime's adds to one of its own until its output is there, and over the creation of a
//	        session within a process that is there. Beside stand the whole times, with the run,
//	        and those of a new process of weir's: a run of bert-base alone is an eighth of what
//	        ONNX Runtime takes to load and run it, so that no switch could be ten times as fast in
//	        all
//	far     on the device whose memory the host cannot address, behind a bus of 1, 5 and 20 GB/s:
//	        by how much a run is longer whose weights come than the one before it, whose are
//	        there, over what it would be at least by the model of PipeSwitch (OSDI 2020), section
//	        4.2, from the times of the steps as measured, and the bus as described. Real bytes
//	        are copied, by a core, which is slower beside one that computes and makes that one
//	        slower; an engine for copies does neither. So a bound is held of a bus that this host
//	        can play: the same copies, brought by nothing of the engine's, end at most 0.05 of
//	        what is exposed at least late beside a run whose weights are there, and make that
//	        longer by 0.25 of it at most; what they do cost is no allowance. A note says which
//	        bus it cannot play, and why. Of all three it is held in virtual time, with such an
//	        engine and the models of near, by what a test of package engine says, which runs
//	        first (WEIR_LONG=1 go test ./engine -run TestExposed).
//	        Beside stands what it would be at least as the host plays the bus: as fast as it
//	        copies beside a run, which then takes as much longer as one does whose weights are
//	        there
//	shrink  an opportunistic job that runs without pause, half of whose weights another asks for:
//	        from that to when the other one has the bytes, less the iteration during which it
//	        asked. 95 of 100 must hold the bound, and not the median: where in an iteration one
//	        asks is by chance
//	rates   what the cost model of engine/groups.go assumes: reported, and nothing is held
//
// Medians are quoted. The exit code is 1 when a bound of issue 13 is missed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/seat"
)

// results are what is published.
type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Threads   int                `json:"threads"`
	Go        string             `json:"go"`
	Peer      string             `json:"onnxruntime,omitempty"`
	Rounds    int                `json:"rounds"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign    float64            `json:"foreign_cores"`
	LoadBefore string             `json:"load_average_before"`
	LoadAfter  string             `json:"load_average_after"`
	Figures    map[string]float64 `json:"figures"` // medians
	Claims     claims.Book        `json:"claims"`
	Notes      []string           `json:"notes,omitempty"` // of what is no claim, and why
}

// bench is what the groups use.
type bench struct {
	results
	dir    string // of models, plans and programs
	python string
	loaded map[string]*model // by name
	memory seat.Counted      // of the weights of those
}

// groups are what is measured, in this order.
var groups = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"near", near}, {"peer", peers}, {"far", distant}, {"shrink", shrink}, {"rates", rates},
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 100, "switches of each kind; a tenth as many new processes")
	threads := flag.Int("threads", runtime.NumCPU(), "workers that compute")
	only := flag.String("only", "", "groups to run, separated by commas (default: all)")
	python := flag.String("python", "python3", "a Python that has onnxruntime")
	flag.Parse()
	cpu.ReserveProcs(2) // as weir does
	const command claims.Command = "switch"
	others := claims.Start()
	dir, err := os.MkdirTemp("", "weir-switch-")
	command.Check(err)
	b := &bench{dir: dir, python: *python, loaded: map[string]*model{}, results: results{
		Date: time.Now().UTC().Format("2006-01-02"), Machine: cpuinfo.ModelName(),
		Processor: roofline.Identify(), Cores: runtime.NumCPU(), Threads: *threads,
		Go: runtime.Version(), Rounds: *rounds, LoadBefore: loadAverage(),
		Figures: map[string]float64{}}}
	err = b.measure(context.Background(), *only)
	b.close()
	_ = os.RemoveAll(dir) // what is left of a temporary folder is nobody's trouble
	command.Check(err)
	b.LoadAfter, b.Foreign = loadAverage(), others.Foreign()
	command.Finish(&b.results, *asJSON, b.print(os.Stderr))
}

// measure runs the groups that were named.
func (b *bench) measure(ctx context.Context, only string) error {
	for _, g := range groups {
		if only != "" && !slices.Contains(strings.Split(only, ","), g.name) {
			continue
		}
		if err := g.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// print shows the figures and reports whether all bounds are held.
func (b *bench) print(w io.Writer) bool {
	names := make([]string, 0, len(b.Figures))
	for name := range b.Figures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "        %s: %.4g\n", name, b.Figures[name])
	}
	for _, note := range b.Notes {
		fmt.Fprintf(w, "note    %s\n", note)
	}
	fmt.Fprintf(w, "load average %s before, %s after; others took %.2f of %d cores meanwhile\n",
		b.LoadBefore, b.LoadAfter, b.Foreign, b.Cores)
	return b.Claims.Judge(w)
}

// note adds the median of what was measured to the figures, and returns it.
func (b *bench) note(name string, values []float64) float64 {
	m := claims.Median(values)
	b.Figures[name] = m
	return m
}

// ms is how many milliseconds have passed since a time.
func ms(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Millisecond) }

// loadAverage is that of the last minute, "" where the system does not tell.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg") // which not all systems have
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
