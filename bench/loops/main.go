// Command loops has models of arm64 processors run the hot loops of the kernels and compares the
// cycles that they take with what the units for fused multiply-add allow. No processor is timed: it
// is what LLVM's schedulers say of the instructions, with every load in the first cache.
//
//	go run ./bench/loops          # needs llvm-mc and llvm-mca of LLVM 16 or later
//	go run ./bench/loops -json
//	go run ./bench/loops -kernel exp
//
// Loops are read from the program as it is built for arm64: of each kernel the loop with the most
// multiplications. Each is held to what limits it: the busiest of the processor's units, loads,
// stores, divisions and decoders among them, or the additions to one register that wait for each
// other from round to round. A tile that is large enough to keep the multipliers busy is held to
// these alone, whatever else it does. It exits with 1 when a loop takes more cycles than the bounds
// allow, with 2 when a tool is missing.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirgpu/weir/internal/claims"
)

// The bounds are shares of what the limit allows, over all loops on all processors, and of what the
// multipliers allow, over those of large tiles: the worst and the median.
const (
	worstShare  = 0.85
	medianShare = 0.95
)

// processors are the names of LLVM's models.
var processors = []string{"neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1"}

// matrices are those of them that have products of matrices, which routines with such a name use.
var matrices = map[string]bool{"neoverse-n2": true, "neoverse-v1": true, "neoverse-v2": true}

// kernels are the routines that are looked at, by their package: those whose names match.
var kernels = map[string]string{
	"github.com/weirgpu/weir/internal/kernel/gemm": "^(tile|matrix)[^_]*_",
	"github.com/weirgpu/weir/internal/kernel/conv": "^(rows|small|halved|winograd).*NEON$",
	"github.com/weirgpu/weir/internal/kernel/vec":  "NEON$",

	"github.com/weirgpu/weir/internal/kernel/nbits": "^(bytesDot.*|widenNEON)$",
}

// report is the result.
type report struct {
	Tool  string  `json:"tool"`
	Loops []*loop `json:"loops"`
	Large shares  `json:"large_tiles_of_multipliers"`
	All   shares  `json:"all_of_their_limits"`
	Units shares  `json:"all_of_units_and_chains"` // a full queue is none of these limits
	Held  bool    `json:"held"`
}

// shares are what a set of loops reaches.
type shares struct {
	Loops  int     `json:"loops"`
	Worst  float64 `json:"worst"`
	Median float64 `json:"median"`
}

// loop is the hot loop of a kernel.
type loop struct {
	Kernel       string             `json:"kernel"`
	Instructions int                `json:"instructions"`
	Multiplies   int                `json:"multiplies"`
	Large        bool               `json:"large_tile"` // held to the multipliers
	Cycles       map[string]float64 `json:"cycles"`     // a round, by processor
	Share        map[string]float64 `json:"share"`      // of what the multipliers allow
	OfLimit      map[string]float64 `json:"of_limit"`   // of what the limit allows
	OfUnits      map[string]float64 `json:"of_units"`   // the same where no queue is a limit
	Waits        map[string]string  `json:"waits"`      // the full queue of what misses that
	multiplies   map[string]int     // by the name of the instruction
	text         string
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	only := flag.String("kernel", "", "look at the kernels alone whose names match")
	flag.Parse()
	r, err := measure(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loops:", err)
		os.Exit(2)
	}
	const command claims.Command = "loops"
	if !*asJSON {
		command.Check(r.print(os.Stdout))
	}
	command.Finish(r, *asJSON, r.Held)
}

// measure finds the loops and has each processor's model run them: those whose names match.
func measure(only string) (*report, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-kernel: %w", err)
	}
	m, err := newModel()
	if err != nil {
		return nil, err
	}
	r := &report{Tool: m.version}
	for pkg, names := range kernels {
		found, err := find(pkg, regexp.MustCompile(names), match, m)
		if err != nil {
			return nil, err
		}
		r.Loops = append(r.Loops, found...)
	}
	if len(r.Loops) == 0 {
		return nil, fmt.Errorf("-kernel: no kernel matches %s", only)
	}
	slices.SortFunc(r.Loops, func(a, b *loop) int { return cmp.Compare(a.Kernel, b.Kernel) })
	for _, cpu := range processors {
		for _, l := range r.Loops {
			if strings.HasPrefix(l.Kernel, "matrix") && !matrices[cpu] {
				continue
			}
			if err := l.measure(m, cpu); err != nil {
				return nil, fmt.Errorf("%s: %w", l.Kernel, err)
			}
		}
	}
	r.judge()
	return r, nil
}

// measure has a processor's model run the loop.
func (l *loop) measure(m *model, cpu string) error {
	u, err := m.cycles(cpu, l.text)
	if err != nil {
		return err
	}
	limit, err := m.limit(cpu, l.text, u.limit())
	if err != nil {
		return err
	}
	apart, err := m.limit(cpu, l.text, u.units)
	if err != nil {
		return err
	}
	busy := 0.
	for name, n := range l.multiplies {
		each, err := m.multiply(cpu, name)
		if err != nil {
			return err
		}
		busy += float64(n) * each
	}
	l.Cycles[cpu], l.Share[cpu] = u.cycles, busy/u.cycles
	l.OfLimit[cpu], l.OfUnits[cpu] = min(limit/u.cycles, 1), min(apart/u.cycles, 1)
	if l.OfUnits[cpu] < worstShare {
		l.Waits[cpu] = fmt.Sprintf("%s, %.0f%% full", u.queue, 100*u.full)
	}
	return nil
}

// judge compares the loops with the bounds.
func (r *report) judge() {
	var large, all, units []float64
	for _, l := range r.Loops {
		all = slices.AppendSeq(all, maps.Values(l.OfLimit))
		units = slices.AppendSeq(units, maps.Values(l.OfUnits))
		if l.Large {
			large = slices.AppendSeq(large, maps.Values(l.Share))
		}
	}
	r.Large, r.All, r.Units = sharesOf(large), sharesOf(all), sharesOf(units)
	r.Held = r.Large.hold() && r.All.hold()
}

func sharesOf(all []float64) shares {
	if len(all) == 0 {
		return shares{}
	}
	slices.Sort(all)
	return shares{len(all), all[0], all[len(all)/2]}
}

// hold reports whether a set keeps to the bounds; one without loops does, as kernels may be few.
func (s shares) hold() bool {
	return s.Loops == 0 || s.Worst >= worstShare && s.Median >= medianShare
}

// print writes the table.
func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "loop\tinstructions\tmultiplies")
	for _, cpu := range processors {
		fmt.Fprintf(t, "\t%s", cpu)
	}
	fmt.Fprintln(t)
	for _, l := range r.Loops {
		fmt.Fprintf(t, "%s\t%d\t%d", l.Kernel, l.Instructions, l.Multiplies)
		for _, cpu := range processors {
			if l.Cycles[cpu] == 0 {
				fmt.Fprint(t, "\t-")
				continue
			}
			fmt.Fprintf(t, "\t%.1f %.0f%% %.0f%%", l.Cycles[cpu], 100*l.Share[cpu],
				100*l.OfLimit[cpu])
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.waits(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ncycles a round, the share of what the multipliers allow, and of "+
		"what the limit allows (%s)\n%s%s%s", r.Tool,
		r.Large.line("large tiles, of what the multipliers allow"),
		r.All.line("all loops, of what their limits allow"),
		r.Units.line("the same where a full queue is no limit (not held to it)"))
	return err
}

// waits writes which loops take longer than their units, decoders and chains from round to round,
// and why: what waits in a queue depends on what is in it, so that no more is under way.
func (r *report) waits(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nloops that take longer than units and decoders, as a queue is full of "+
		"what waits for results\nloop\tprocessor\tshare\tqueue\n")
	for _, l := range r.Loops {
		for _, cpu := range slices.Sorted(maps.Keys(l.Waits)) {
			fmt.Fprintf(t, "%s\t%s\t%.0f%%\t%s\n", l.Kernel, cpu, 100*l.OfUnits[cpu],
				l.Waits[cpu])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "LLVM runs apple-m1 by the model of the Apple A7, of 2013: a "+
		"multiplication that adds waits\n8 cycles for a factor, and queues hold 48 instructions "+
		"on vectors and 32 that multiply.")
	return err
}

func (s shares) line(what string) string {
	return fmt.Sprintf("%s: worst %.1f%% (%.0f%% at least), median %.1f%% (%.0f%% at least)\n",
		what, 100*s.Worst, 100*worstShare, 100*s.Median, 100*medianShare)
}
