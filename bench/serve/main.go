// Command serve measures what a server adds to a model that runs in the same process, beside an
// echo that does nothing on the same transport, what it does with twice the load that it can bear,
// and what it gains by putting requests together:
//
//	go run ./bench/serve               # about two minutes
//	go run ./bench/serve -json > bench/results/DATE-serve.json
//
// The client is part of what is measured, on the same cores, and what is compared is interleaved in
// each round; the medians of rounds are quoted. The exit code is 1 when a bound is missed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/server/client"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/traffic"
)

// clients ask at a time where answers a second are counted.
const clients = 8

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	Foreign   float64            `json:"foreign_cores"`
	Rounds    []round            `json:"rounds"`
	JSON      []decoding         `json:"json"`
	Overload  []overload         `json:"overload"`
	Lending   []lending          `json:"lending"`
	Batching  []batching         `json:"batching"`
	Claims    claims.Book        `json:"claims"`
}

// round is what one round measured: the model itself, and each transport.
type round struct {
	Model      traffic.Times        `json:"model_ms"`
	PerSecond  float64              `json:"model_per_s"` // asked by as many as the transports
	Transports map[string]transport `json:"transports"`
}

// transport is an echo and an inference by one way.
type transport struct {
	Echo          traffic.Times `json:"echo_ms"`
	Infer         traffic.Times `json:"infer_ms"`
	EchoPerSecond float64       `json:"echo_per_s"`
	PerSecond     float64       `json:"infer_per_s"`
}

// decoding is how fast a tensor is read from JSON, in MB a second.
type decoding struct {
	Weir     float64 `json:"weir_mb_per_s"`
	Standard float64 `json:"encoding_json_mb_per_s"`
}

// overload is what came of twice the load.
type overload struct {
	ServiceMS float64        `json:"service_ms"`
	Result    traffic.Result `json:"result"`
}

// command is how messages begin.
const command claims.Command = "serve"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("duration", time.Second, "of each part of a round")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // as weir does
	}
	r := results{
		Date:      time.Now().UTC().Format("2006-01-02"),
		Machine:   cpuinfo.ModelName(),
		Processor: roofline.Identify(),
		Cores:     runtime.NumCPU(),
		Go:        runtime.Version(),
	}
	noise := claims.Start()
	command.Check(r.measure(*rounds, *length))
	r.Foreign = noise.Foreign()
	held := r.Claims.Judge(os.Stderr)
	command.Finish(r, *asJSON, held)
}

func (r *results) measure(rounds int, length time.Duration) error {
	if err := r.serve(rounds, length); err != nil {
		return err
	}
	// by servers of their own: a device has one at a time
	if err := r.lend(rounds, length); err != nil {
		return err
	}
	return r.together(rounds, length)
}

// serve measures what a server adds, and how it bears too much.
func (r *results) serve(rounds int, length time.Duration) error {
	w, err := begin()
	if err != nil {
		return err
	}
	defer w.end()
	for range rounds {
		if err := r.added(w, length); err != nil {
			return err
		}
		d, err := decode(length / 4)
		if err != nil {
			return err
		}
		r.JSON = append(r.JSON, d)
		r.Claims.Check("FP32 in JSON is read faster than encoding/json does, times",
			d.Weir/d.Standard, 8, false)
		o, err := w.overload(3 * length)
		if err != nil {
			return err
		}
		r.Overload = append(r.Overload, o)
		r.judge(&o)
	}
	return nil
}

// added measures one request after another, and many at a time, by each way.
func (r *results) added(w *world, length time.Duration) error {
	one := traffic.Plan{Clients: 1, Duration: length / 4, Timeout: time.Minute}
	many := one
	many.Clients = clients
	model, err := run(one, w.model)
	if err != nil {
		return err
	}
	models, err := run(many, w.model)
	if err != nil {
		return err
	}
	now := round{model.Latency, models.PerSecond, map[string]transport{}}
	for _, t := range w.ways {
		echo, err := run(one, t.echo)
		if err != nil {
			return err
		}
		infer, err := run(one, t.infer)
		if err != nil {
			return err
		}
		echoes, err := run(many, t.echo)
		if err != nil {
			return err
		}
		answers, err := run(many, t.infer)
		if err != nil {
			return err
		}
		now.Transports[t.name] = transport{echo.Latency, infer.Latency, echoes.PerSecond,
			answers.PerSecond}
		r.Claims.Check("added to the model over "+t.name+", p50, of an echo's",
			(infer.Latency.P50-model.Latency.P50)/echo.Latency.P50, 1.3, true)
		r.Claims.Check("added to the model over "+t.name+", p99, of an echo's",
			(infer.Latency.P99-model.Latency.P99)/echo.Latency.P99, 1.5, true)
		r.Claims.Check("requests a second over "+t.name+", of what an echo and the model allow",
			answers.PerSecond*(1/echoes.PerSecond+model.Latency.P50/2e3), 0.85, false)
		// where two cores are threads of one, they compute less than twice as much
		r.Claims.Check("requests a second over "+t.name+", of what an echo and as many runs of "+
			"the model allow",
			answers.PerSecond*(1/echoes.PerSecond+1/models.PerSecond), 0.85, false)
	}
	r.Rounds = append(r.Rounds, now)
	return nil
}

// run carries a plan out, in which nothing may fail.
func run(p traffic.Plan, ask traffic.Ask) (*traffic.Result, error) {
	var failed error
	res, err := traffic.Run(context.Background(), p, ask, func(err error) (string, bool) {
		failed = err
		return client.Kind(err), client.Refused(err)
	})
	if err == nil && p.Deadline == 0 {
		err = failed
	}
	return res, err
}

// decode reads a tensor of a picture from JSON.
func decode(length time.Duration) (decoding, error) {
	rnd := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 3*224*224)
	for i := range values {
		values[i] = rnd.Float32()
	}
	body, err := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "x",
		"datatype": "FP32", "shape": []int{3, 224, 224}, "data": values}}})
	if err != nil {
		return decoding{}, err
	}
	rate := func(f func() error) float64 {
		n, began := 0, time.Now()
		for time.Since(began) < length && err == nil {
			err = f()
			n += len(body)
		}
		return float64(n) / 1e6 / time.Since(began).Seconds()
	}
	d := decoding{Weir: rate(func() error {
		_, err := oip.Decode(body, len(body), nil)
		return err
	})}
	d.Standard = rate(func() error {
		var r struct{ Inputs []struct{ Data []float32 } }
		return json.Unmarshal(body, &r)
	})
	return d, err
}
