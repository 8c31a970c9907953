// Command precision measures what multiplying in bfloat16 gains and what it costs, against weir's
// own float32:
//
//	go run ./bench/precision            # some minutes; wants a processor that has bfloat16
//	go run ./bench/precision -pairs 3 mobilenetv2 minilm-l6
//	go run ./bench/precision -json > bench/results/DATE-precision.json
//
// A model in float32 runs in turn with itself in auto, and in bf16, on the same input, on one
// thread, and the medians of the pairs' ratios are quoted beside the cosine of their outputs. The
// exit code is 1 when a bound is missed: none may be slower than float32, and two models are to be
// faster where bfloat16 has about twice its rate.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// The bounds: time over float32 of the bounded models, where bfloat16 has rateOfRatio at least, and
// of any model anywhere, and cosine of the outputs.
const (
	mostRatio    = 0.65
	rateOfRatio  = 1.75
	mostAnywhere = 1.02
	leastCosine  = 0.999
)

// bounded are the models that are to be faster by mostRatio.
var bounded = []string{"bert-base", "resnet50"}

type line struct {
	Model     string         `json:"model"`
	Precision pass.Precision `json:"precision"`

	FP32   float64 `json:"fp32_ms"`
	BF16   float64 `json:"bf16_ms"`
	Ratio  float64 `json:"ratio"`
	Cosine float64 `json:"cosine"`
	Bound  float64 `json:"bound"`
	Held   bool    `json:"held"`
}

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Go        string             `json:"go"`
	Pairs     int                `json:"pairs"`
	Rate      float64            `json:"rate"`       // of bfloat16 over float32, as measured
	Short     float64            `json:"short_rate"` // the same of products of few steps
	Models    []line             `json:"models"`
}

// host is what the models are compiled for.
var host = kernels.Target(cpu.Discover())

// command is how messages begin.
const command claims.Command = "precision"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	pairs := flag.Int("pairs", 15, "runs of each form of a model")
	flag.Parse()
	if !host.Features().BF16 {
		command.Check(fmt.Errorf("this processor does not multiply bfloat16: nothing to measure"))
	}
	r := results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Go:        runtime.Version(),
		Pairs:     *pairs,
		Rate:      host.Features().Costs.BF16Rate.Times(),
		Short:     host.Features().Costs.BF16Short.Times(),
	}
	fmt.Fprintf(os.Stderr,
		"bfloat16 has %v times the rate of float32, %v times in short products\n", r.Rate, r.Short)
	names := flag.Args()
	if len(names) == 0 {
		names = zoo.Names()
	}
	held := true
	for _, name := range names {
		for _, p := range []pass.Precision{pass.Auto, pass.BF16} {
			l, err := measure(name, p, *pairs, r.Rate)
			command.Check(err)
			l.print(os.Stderr)
			r.Models, held = append(r.Models, l), held && l.Held
		}
	}
	command.Finish(r, *asJSON, held)
}

func (l *line) print(w io.Writer) {
	fmt.Fprintf(w, "%-12s fp32 %7.1f ms  %s %7.1f ms  ratio %.3f  cosine %.6f  %s\n", l.Model,
		l.FP32, l.Precision, l.BF16, l.Ratio, l.Cosine,
		map[bool]string{true: "held", false: "MISSED"}[l.Held])
}

// form is a model loaded in one precision.
type form struct {
	instance *engine.Instance
	inputs   []*tensor.Tensor
	close    func()
}

func load(g *graph.Graph, p pass.Precision) (*form, error) {
	asked := map[string]feed.Shape{}
	for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
		if g.Input(name) != nil {
			asked[name] = feed.Shape{1, 128}
		}
	}
	shapes, err := feed.Shapes(g.Inputs, asked, nil)
	if err != nil {
		return nil, err
	}
	compiled, err := plan.Compile(context.Background(), g,
		plan.Options{Target: host, Shapes: shapes, Threads: 1, Passes: pass.Options{Precision: p}})
	if err != nil {
		return nil, err
	}
	f, err := instantiate(compiled)
	if err != nil {
		return nil, err
	}
	f.inputs, err = feed.Make(g.Inputs, shapes, nil, 1)
	return f, err
}

// instantiate loads a plan on one thread.
func instantiate(compiled *plan.Plan) (*form, error) {
	dev, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		return nil, err
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	session, err := engine.Load(compiled, engine.Options{Device: dev, Pool: pool})
	if err != nil {
		return nil, err
	}
	f := &form{close: func() { session.Close(); pool.Close(); _ = dev.Close() }}
	f.instance, err = session.Take()
	return f, err
}

// run runs one iteration and returns how long it took.
func (f *form) run() (time.Duration, error) {
	if err := feed.Fill(f.instance.Inputs(), f.inputs); err != nil {
		return 0, err
	}
	start := time.Now()
	err := f.instance.Run(context.Background(), device.Open)
	return time.Since(start), err
}

// alternate runs both forms in turn and returns the times of each in ms and their ratios.
func alternate(full, half *form, pairs int) (a, b, ratios []float64, err error) {
	for k := range pairs + 2 {
		x, err := full.run()
		if err != nil {
			return nil, nil, nil, err
		}
		y, err := half.run()
		if err != nil {
			return nil, nil, nil, err
		}
		if k >= 2 { // the first runs touch memory
			a, b, ratios = append(a, x.Seconds()*1e3), append(b, y.Seconds()*1e3),
				append(ratios, y.Seconds()/x.Seconds())
		}
	}
	return a, b, ratios, nil
}

// measure measures a model in a precision on a processor where bfloat16 has a rate.
func measure(name string, p pass.Precision, pairs int, rate float64) (l line, err error) {
	g, err := zoo.New(name, zoo.Options{Seed: 1})
	if err != nil {
		return l, err
	}
	full, err := load(g, pass.FP32)
	if err != nil {
		return l, err
	}
	defer full.close()
	half, err := load(g, p)
	if err != nil {
		return l, err
	}
	defer half.close()
	a, b, ratios, err := alternate(full, half, pairs)
	if err != nil {
		return l, err
	}
	l = line{Model: name, Precision: p, FP32: claims.Median(a), BF16: claims.Median(b),
		Ratio: claims.Median(ratios), Cosine: 1}
	for i, t := range full.instance.Outputs() {
		l.Cosine = min(l.Cosine,
			cosine(tensor.As[float32](t), tensor.As[float32](half.instance.Outputs()[i])))
	}
	if l.Bound = mostAnywhere; slices.Contains(bounded, name) && rate >= rateOfRatio {
		l.Bound = mostRatio
	}
	l.Held = l.Cosine >= leastCosine && l.Ratio <= l.Bound
	return l, nil
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}
