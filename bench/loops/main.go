// Command loops has models of arm64 processors run the hot loops of the kernels and compares the
// cycles that they take with what the units for fused multiply-add allow. No processor is timed: it
// is what LLVM's schedulers say of the instructions, with every load in the first cache.
//
//	go run ./bench/loops          # needs llvm-mc and llvm-mca of LLVM 16 or later
//	go run ./bench/loops -json
//
// Loops are read from the program as it is built for arm64: of each kernel the loop with the most
// multiplications. It exits with 1 when a loop of a tile that is large enough to keep the
// multipliers busy takes more cycles than the bounds allow, with 2 when a tool is missing.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"text/tabwriter"

	"github.com/weirgpu/weir/internal/claims"
)

// The bounds are shares of what the multipliers allow, over the loops of large tiles on all
// processors: the worst and the median.
const (
	worstShare  = 0.85
	medianShare = 0.95
)

// processors are the names of LLVM's models.
var processors = []string{"neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "apple-m1"}

// kernels are the routines that are looked at, by their package: those whose names match.
var kernels = map[string]string{
	"github.com/weirgpu/weir/internal/kernel/gemm": "^tileNEON_",
	"github.com/weirgpu/weir/internal/kernel/conv": "^(rows|small|halved|winograd).*NEON$",
}

// report is the result.
type report struct {
	Tool   string  `json:"tool"`
	Loops  []*loop `json:"loops"`
	Worst  float64 `json:"worst_share"`
	Median float64 `json:"median_share"`
	Held   bool    `json:"held"`
}

// loop is the hot loop of a kernel.
type loop struct {
	Kernel       string             `json:"kernel"`
	Instructions int                `json:"instructions"`
	Multiplies   int                `json:"multiplies"`
	Large        bool               `json:"large_tile"` // held to the bounds
	Cycles       map[string]float64 `json:"cycles"`     // a round, by processor
	Share        map[string]float64 `json:"share"`      // of what the multipliers allow
	text         string
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	r, err := measure()
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

// measure finds the loops and has each processor's model run them.
func measure() (*report, error) {
	m, err := newModel()
	if err != nil {
		return nil, err
	}
	r := &report{Tool: m.version}
	for pkg, names := range kernels {
		found, err := find(pkg, regexp.MustCompile(names), m)
		if err != nil {
			return nil, err
		}
		r.Loops = append(r.Loops, found...)
	}
	slices.SortFunc(r.Loops, func(a, b *loop) int { return cmp.Compare(a.Kernel, b.Kernel) })
	for _, cpu := range processors {
		each, err := m.multiply(cpu)
		if err != nil {
			return nil, err
		}
		for _, l := range r.Loops {
			cycles, err := m.cycles(cpu, l.text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.Kernel, err)
			}
			l.Cycles[cpu], l.Share[cpu] = cycles, float64(l.Multiplies)*each/cycles
		}
	}
	r.judge()
	return r, nil
}

// judge compares the loops of large tiles with the bounds.
func (r *report) judge() {
	var shares []float64
	for _, l := range r.Loops {
		for _, s := range l.Share {
			if l.Large {
				shares = append(shares, s)
			}
		}
	}
	if len(shares) == 0 {
		return
	}
	slices.Sort(shares)
	r.Worst, r.Median = shares[0], shares[len(shares)/2]
	r.Held = r.Worst >= worstShare && r.Median >= medianShare
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
			fmt.Fprintf(t, "\t%.1f %.0f%%", l.Cycles[cpu], 100*l.Share[cpu])
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\ncycles a round, and the share of what the multipliers allow (%s)\n"+
		"large tiles: worst %.1f%% (%.0f%% at least), median %.1f%% (%.0f%% at least)\n", r.Tool,
		100*r.Worst, 100*worstShare, 100*r.Median, 100*medianShare)
	return err
}
