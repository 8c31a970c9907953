// Command instructions counts the instructions that an inference takes on arm64, of weir with the
// vectors of arm64, of weir in plain Go and of ONNX Runtime, under QEMU's user-mode emulation; and
// those of a product of matrices in float32, bfloat16 and bytes:
//
//	go run ./bench/instructions                    # minutes; the library is fetched once
//	go run ./bench/instructions -model mobilenetv2 -functions 30
//	go run ./bench/instructions -products
//	go run ./bench/instructions -model bert-base -layers 2
//	go run ./bench/instructions -json > bench/results/DATE-instructions-arm64.json
//
// These are counts and not times: an instruction may take a fraction of a cycle or hundreds, and
// where memory is waited for they say nothing. They are exact: a plugin of the emulator adds up the
// instructions of each block that runs, on all threads. All three run one model file on one input
// and one thread; an inference is what lies between the marks of the last run and of the end, so
// that loading, planning and the first run are not in it. The outputs are compared. Layers of a
// transformer are alike: what one takes is the difference of models that differ by one.
//
// ONNX Runtime's library is the one of the npm package onnxruntime-node, which is pinned by its
// hash, unpacked into the user's cache and driven by a C program. It takes qemu-aarch64, compilers
// for this machine and for arm64, and npm (Debian: qemu-user, gcc, gcc-aarch64-linux-gnu,
// libc6-dev-arm64-cross, libstdc++6-arm64-cross, npm).
//
// The exit code is 1 when a bound is missed, 2 when a tool is missing, and 3 when the registry does
// not answer.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weirgpu/weir/internal/claims"
)

// The bounds are of vectors' instructions over those of the others.
const (
	overPlain = 1.0 / 6
	overPeer  = 1.0
)

// mostDistance bounds how far an output may be from the peer's, in parts of its norm.
const mostDistance = 1e-4

// command is how messages begin.
const command claims.Command = "instructions"

// Errors that have an exit code of their own.
var (
	errTool     = errors.New("a tool is missing")
	errRegistry = errors.New("the registry does not answer")
)

// report is the result.
type report struct {
	Date   string    `json:"date"`
	What   string    `json:"what"`
	Tools  toolNames `json:"tools"`
	CPU    string    `json:"emulated_processor"`
	Go     string    `json:"go"`
	Models []*line   `json:"models"`
	// Products are of matrices, of each form of numbers.
	Products []*productLine `json:"products,omitempty"`
	Claims   claims.Book    `json:"claims"`
}

// line is what was counted of one model, an inference.
type line struct {
	Model     string              `json:"model"`
	Layers    int                 `json:"layers,omitempty"` // where not all
	Neon      uint64              `json:"neon"`
	Plain     uint64              `json:"plain,omitempty"`
	Peer      uint64              `json:"onnxruntime,omitempty"`
	Runs      map[string][]uint64 `json:"runs"` // by program, each run after the first
	OverPlain float64             `json:"over_plain,omitempty"`
	OverPeer  float64             `json:"over_onnxruntime,omitempty"`
	Distance  float64             `json:"distance_from_onnxruntime,omitempty"`
	Functions []share             `json:"functions,omitempty"` // of weir with vectors
}

func main() {
	o := options{}
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.StringVar(&o.model, "model", "", "count this model only")
	flag.IntVar(&o.functions, "functions", 0, "list so many functions with the most instructions")
	flag.IntVar(&o.runs, "runs", 1, "runs after the first, of which the median counts")
	flag.IntVar(&o.layers, "layers", 0, "build models of so many layers; 0: all that they have")
	flag.StringVar(&o.cpu, "cpu", "neoverse-n1", "the processor that is emulated")
	flag.BoolVar(&o.products, "products", false, "count products of matrices alone, and no model")
	flag.BoolVar(&o.alone, "alone", false, "leave plain Go and ONNX Runtime out: nothing is judged")
	flag.Parse()
	r, err := measure(o)
	switch {
	case errors.Is(err, errTool):
		fail(err, 2)
	case errors.Is(err, errRegistry):
		fail(err, 3)
	}
	command.Check(err)
	if !*asJSON {
		command.Check(r.print(os.Stdout))
	}
	held := r.Claims.Judge(os.Stderr)
	command.Finish(r, *asJSON, held)
}

func fail(err error, code int) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
	os.Exit(code)
}

// options are what the command is asked for.
type options struct {
	model, cpu      string
	functions, runs int
	layers          int // of a transformer, blocks of a stage of others; 0 for all
	alone, products bool
}

// measure counts all models that are asked for.
func measure(o options) (*report, error) {
	if o.runs < 1 || o.runs > 50 {
		return nil, fmt.Errorf("-runs %d: 1 to 50", o.runs)
	}
	if o.layers < 0 {
		return nil, fmt.Errorf("-layers %d: 0 at least", o.layers)
	}
	names := slices.Clone(models)
	if o.model != "" {
		if !slices.Contains(models, o.model) {
			return nil, fmt.Errorf("-model %q: one of %v", o.model, models)
		}
		names = []string{o.model}
	}
	folder, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	e, err := newEmulator(folder, o.cpu)
	if err != nil {
		return nil, err
	}
	r := &report{Date: time.Now().UTC().Format("2006-01-02"), CPU: o.cpu, Go: runtime.Version(),
		What: "instructions counted under emulation, an inference on one thread: no times"}
	if o.model == "" && !o.alone {
		if r.Products, err = countProducts(folder, o); err != nil {
			return nil, err
		}
		for _, l := range r.Products {
			l.claim(&r.Claims)
		}
	}
	if r.Tools = e.tools; o.products {
		return r, nil
	}
	programs, err := prepare(e, o.alone)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		l, err := count(e, programs, name, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.Models = append(r.Models, l)
		l.claim(&r.Claims)
	}
	r.Tools = e.tools
	return r, nil
}

// claim enters the ratios of a model.
func (l *line) claim(b *claims.Book) {
	if l.Plain == 0 || l.Peer == 0 {
		return
	}
	l.OverPlain = float64(l.Neon) / float64(l.Plain)
	l.OverPeer = float64(l.Neon) / float64(l.Peer)
	b.Check(l.Model+": instructions over plain Go's", l.OverPlain, overPlain, true)
	b.Check(l.Model+": instructions over ONNX Runtime's", l.OverPeer, overPeer, true)
	b.Check(l.Model+": distance of the output from ONNX Runtime's", l.Distance, mostDistance, true)
}

// print writes the table, in millions of instructions.
func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tneon\tplain Go\tONNX Runtime\tover plain Go\tover ONNX Runtime\t")
	for _, l := range r.Models {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.4f\t%.3f\t\n", l.Model, million(l.Neon),
			million(l.Plain), million(l.Peer), l.OverPlain, l.OverPeer)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nmillions of %s (%s, %s)\n", r.What, r.CPU, r.Tools.Emulator)
	if err := printProducts(w, r.Products); err != nil {
		return err
	}
	for _, l := range r.Models {
		if len(l.Functions) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s, by function:\n", l.Model)
		for _, f := range l.Functions {
			fmt.Fprintf(w, "%9.1f  %5.1f %%  %s\n", million(f.Instructions), 100*f.Share, f.Name)
		}
	}
	return nil
}

func million(n uint64) float64 { return float64(n) / 1e6 }
