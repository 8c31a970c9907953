package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// deviceFlags choose where and how a model runs. They mean the same in every command.
type deviceFlags struct {
	device    string
	threads   int
	precision string
}

func (f *deviceFlags) add(c *cobra.Command) {
	f.addPlace(c)
	c.Flags().
		StringVar(&f.precision, "precision", "fp32", "arithmetic of products: fp32, bf16 where it "+
			"is faster, or auto, bf16 where it also costs little accuracy")
	completeFlag(c, "precision", "fp32", "bf16", "auto")
}

// addPlace adds the flags that say where, for commands whose input says in which precision.
func (f *deviceFlags) addPlace(c *cobra.Command) {
	f.precision = "fp32"
	c.Flags().StringVar(&f.device, "device", "cpu:0", "device to run on")
	c.Flags().
		IntVar(&f.threads, "threads", 0, "cores to use (default: the cores this process may use)")
	completeFlag(c, "device", "cpu:0")
}

// open checks the flags and opens the device, which the caller closes.
func (f *deviceFlags) open() (*machine.Machine, error) {
	if f.threads < 0 || f.threads > cpu.MaxThreads {
		return nil, fmt.Errorf("--threads %d: want a number from 0 to %d", f.threads,
			cpu.MaxThreads)
	}
	m, err := machine.Open(f.device, machine.Options{Threads: threads(f.threads)})
	if err != nil {
		return nil, fmt.Errorf("--device %s: %w", f.device, err)
	}
	if _, err := f.passes(m); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// threads is how many workers a command has: those that a flag asks for, else no more than
// GOMAXPROCS says, which Go's programs are bounded by; 0 for as many as the process has cores.
func threads(asked int) int {
	if asked > 0 {
		return asked
	}
	n, err := strconv.Atoi(os.Getenv("GOMAXPROCS"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(n, cpu.Cores())
}

// passes returns the optimiser's options for the precision asked for.
func (f *deviceFlags) passes(on *machine.Machine) (pass.Options, error) {
	p, err := pass.PrecisionOn(on.Target, pass.Precision(f.precision))
	if err != nil {
		return pass.Options{}, fmt.Errorf("--%w", err)
	}
	return pass.Options{Precision: p}, nil
}

// inputFlags choose the inputs of a model.
type inputFlags struct {
	inputs []string
	shapes []string
	seed   uint64
	images feed.Images
	cast   bool
}

// modelFlags choose the inputs of a model and the memory that it may hold.
type modelFlags struct {
	inputFlags
	memory  share.Bytes
	noCache bool
}

func (f *inputFlags) add(c *cobra.Command) {
	c.Flags().
		StringArrayVar(&f.shapes, "shape", nil,
			"shape of an input, NAME=1x3x224x224 (repeat for more)")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of made-up inputs")
}

// addGiven adds the flags by which inputs are given.
func (f *inputFlags) addGiven(c *cobra.Command) {
	c.Flags().
		StringArrayVar(&f.inputs, "input", nil, "an input, `NAME=FILE`, from a .npy, .npz or "+
			"image file, or a .pb as ONNX's test data has them; NAME=- from standard input, "+
			"NAME=[1,2,3] as it stands; FILE.npz gives all inputs that it names (repeat for more)")
	c.Flags().
		Float64SliceVar(&f.images.Mean, "mean", nil, "what is subtracted from an image's samples, "+
			"0 to 1, as in 0.485,0.456,0.406 for red, green and blue")
	c.Flags().
		Float64SliceVar(&f.images.Std, "std", nil, "what they are divided by after that, as in "+
			"0.229,0.224,0.225")
	c.Flags().
		StringVar(&f.images.Layout, "layout", "", "axes of an image input, nchw or nhwc (default: "+
			"where the model has 1 or 3 channels)")
	c.Flags().
		BoolVar(&f.cast, "cast", false, "convert given inputs to the element types that the model "+
			"takes")
	completeFlag(c, "layout", "nchw", "nhwc")
}

// addRun adds the flags of commands that run the model.
func (f *modelFlags) addRun(c *cobra.Command) {
	f.addGiven(c)
	completeInputs(c)
	c.Flags().
		TextVar(&f.memory, "memory", share.Bytes(0), "most memory that the run may hold, a `SIZE` "+
			"such as 4GiB (0B: what the device has)")
	addNoCache(c, &f.noCache)
}

// addNoCache adds the flag of commands that keep compiled plans.
func addNoCache(c *cobra.Command, off *bool) {
	c.Flags().
		BoolVar(off, "no-cache", false, "neither use nor keep compiled plans on disk (in "+
			"$WEIR_CACHE, by default weir/plans in the user's cache folder)")
}

// planCache is the cache of compiled plans, nil when it is switched off.
func planCache(off bool) *cache.Cache {
	if off {
		return nil
	}
	return cache.FromEnv(slog.Default())
}

// request is what a model is run on.
type request struct {
	given  map[string]*tensor.Tensor
	shapes map[string][]int
}

// resolve reads the given inputs of the model that comes from path, of most bytes together unless
// that is 0, and chooses the shapes of all.
func (f *inputFlags) resolve(c *cobra.Command, path string, takes []*graph.Value,
	most int64) (*request, error) {
	texts, err := feed.Pairs("--shape", f.shapes)
	if err != nil {
		return nil, err
	}
	r := &request{}
	asked := map[string]feed.Shape{}
	for name, text := range texts {
		if asked[name], err = feed.ParseShape(text); err != nil {
			return nil, fmt.Errorf("--shape %s: %w", name, err)
		}
	}
	inputs := feed.Reader{Inputs: takes, Stdin: c.InOrStdin(), Used: path == "-",
		Images: f.images, Shapes: asked, Cast: f.cast, Most: most}
	r.given, err = fault.Await(c.Context(), func() (map[string]*tensor.Tensor, error) {
		return inputs.Read(f.inputs)
	})
	if err != nil {
		return nil, err
	}
	r.shapes, err = feed.Shapes(takes, asked, r.given)
	return r, err
}

// made lists the inputs that are made up.
func (r *request) made(takes []*graph.Value) []string {
	var made []string
	for _, v := range takes {
		if r.given[v.Name] == nil {
			made = append(made, v.Name)
		}
	}
	return made
}

// compiled is a model read, planned, found to fit its memory, and ready to be loaded.
type compiled struct {
	model  *cache.Model
	cached *cache.Compiled
	plan   *plan.Plan
	inputs []*tensor.Tensor
	made   []string // inputs that were made up

	session *engine.Session // once it is loaded
}

func compileModel(c *cobra.Command, path string, f *modelFlags, dev *deviceFlags,
	on *machine.Machine) (*compiled, error) {
	passes, err := dev.passes(on)
	if err != nil {
		return nil, err
	}
	m, err := openModel(c, path, planCache(f.noCache))
	if err != nil {
		return nil, err
	}
	for _, text := range m.Warnings {
		say(c.ErrOrStderr(), "warning: %s: %s", path, text)
	}
	out := &compiled{model: m}
	if err := out.compile(c, path, f, on, passes); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// openModel opens a model file, or reads the model on standard input for "-".
func openModel(c *cobra.Command, path string, plans *cache.Cache) (*cache.Model, error) {
	if path != "-" {
		return fault.Await(c.Context(), func() (*cache.Model, error) { return plans.Model(path) })
	}
	m, err := readInput(c)
	if err != nil {
		return nil, err
	}
	return cache.Wrap(m), nil
}

// readModel opens a model file to be read as it is, or reads the model on standard input for "-".
func readModel(c *cobra.Command, path string) (*onnx.Model, error) {
	if path != "-" {
		return fault.Await(c.Context(), func() (*onnx.Model, error) {
			return onnx.Open(path, onnx.Options{})
		})
	}
	return readInput(c)
}

// readInput reads the model on standard input.
func readInput(c *cobra.Command) (*onnx.Model, error) {
	data, err := onnx.ReadAll(c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return decodeInput(data, onnx.Options{})
}

// decodeInput decodes the model that was read on standard input.
func decodeInput(data []byte, o onnx.Options) (*onnx.Model, error) {
	m, err := onnx.Decode(data, "", o)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return m, nil
}

func (m *compiled) compile(c *cobra.Command, path string, f *modelFlags, on *machine.Machine,
	passes pass.Options) error {
	g := m.model.Graph
	r, err := f.resolve(c, path, g.Inputs, cmp.Or(int64(f.memory), on.Device.Info().MemoryBytes))
	if err != nil {
		return err
	}
	makeInputs := sync.OnceValues(
		func() ([]*tensor.Tensor, error) {
			return feed.Make(g.Inputs, r.shapes, r.given, f.seed)
		},
	)
	given, err := feed.Bytes(g.Inputs, r.shapes, r.given)
	if err != nil {
		return err
	}
	if given < 8<<20 { // so little that nobody need ask; on a core that would wait for the plan
		go makeInputs()
	}
	o := plan.Options{Target: on.Target, Shapes: r.shapes, Threads: on.Pool.Threads(),
		Passes: passes}
	if m.cached, err = m.model.Compile(c.Context(), o); err != nil {
		return f.hint(g, r, err)
	}
	m.plan = m.cached.Plan
	// Large inputs are made up after the check of memory, which they may exceed as much as the plan
	// does.
	if err := f.fits(m.plan, given, on.Device.Info()); err != nil {
		return err
	}
	m.made = r.made(g.Inputs)
	m.inputs, err = makeInputs()
	return err
}

// hint adds to an error about shapes that some of them were made up.
func (f *modelFlags) hint(g *graph.Graph, r *request, err error) error {
	if !errors.Is(err, op.ErrInput) && !errors.Is(err, tensor.ErrShape) {
		return err
	}
	for _, v := range g.Inputs {
		asked := slices.ContainsFunc(f.shapes,
			func(s string) bool { return strings.HasPrefix(s, v.Name+"=") })
		if r.given[v.Name] == nil && !asked && !v.Type.Static() {
			return fmt.Errorf(
				"%w; symbolic dimensions are 1 unless --shape says otherwise: try --shape %s=... "+
					"for %v",
				err,
				v.Name,
				v.Type,
			)
		}
	}
	return err
}

// fits compares what a plan and its inputs, which stay in the host's memory, need with what they
// may have.
func (f *modelFlags) fits(p *plan.Plan, inputs int64, d device.Info) error {
	need, has := share.Bytes(p.PeakBytes(1)), share.Bytes(d.MemoryBytes)
	beside := ""
	if given := share.Bytes(inputs); !p.Remote() && need >= 0 {
		need, beside = need+given, fmt.Sprintf(", inputs of %v among it", given.About())
	}
	if f.memory > 0 && (need > f.memory || need < 0) {
		return fmt.Errorf("needs %s%s, --memory %v: raise --memory or lower --shape", need.About(),
			beside, f.memory)
	}
	if has > 0 && (need > has || need < 0) {
		return fmt.Errorf("needs %s%s, device %s has %s: lower --shape", need.About(), beside,
			d.ID, terminal.Size(d.MemoryBytes))
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
