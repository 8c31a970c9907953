// Command harvest measures what a training beside a model that is served costs that model's
// requests, and how much of the time that they leave idle it uses:
//
//	go run ./bench/harvest               # about a minute
//	go run ./bench/harvest -json > bench/results/DATE-harvest.json
//
// A job of the latency class answers requests that come at random, and the recipe of
// examples/digits is followed in the opportunistic class, as weir up --train does. In rounds the
// requests come alone and, at the same times, beside the training; then the training has the device
// alone. Harvested is what part of the updates that the idle time has room for are made in it, so
// what changing between the two costs is not counted as use. The exit code is 1 when a bound is
// missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/zoo"
)

// The bounds of issue 15.
const (
	mostP99       = 1.1  // of the p99 alone
	leastHarvests = 0.85 // of the idle time
)

// neighbour is the model whose requests are measured, and load the part of the time for which they
// keep the device busy.
const (
	neighbour = "mobilenetv2"
	load      = 0.3
)

// round is one of each.
type round struct {
	Requests  int     `json:"requests"`
	AloneP99  float64 `json:"alone_p99_ms"`
	BesideP99 float64 `json:"beside_p99_ms"`
	Busy      float64 `json:"requests_device_share"`
	Beside    float64 `json:"beside_updates_per_s"`
	Alone     float64 `json:"alone_updates_per_s"`
	Harvested float64 `json:"harvested"`
	Held      float64 `json:"held"` // the part of the idle time that the training had the device
}

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	Policy    string             `json:"policy"`
	Model     string             `json:"model"`
	RequestMS float64            `json:"request_ms"`
	Foreign   float64            `json:"foreign_cores"`
	Rounds    []round            `json:"rounds"`
	AloneP99  float64            `json:"alone_p99_ms"` // of the requests of all rounds
	BesideP99 float64            `json:"beside_p99_ms"`
	Claims    claims.Book        `json:"claims"`
}

// command is how messages begin.
const command claims.Command = "harvest"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("duration", 4*time.Second, "of each part of a round")
	r := results{Date: time.Now().UTC().Format("2006-01-02"), Machine: cpuinfo.ModelName(),
		Processor: roofline.Identify(), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Model: neighbour}
	flag.StringVar(&r.Policy, "policy", "priority", "the policy of the host")
	flag.Parse()
	noise := claims.Start()
	command.Check(r.measure(context.Background(), *rounds, *length))
	r.Foreign = noise.Foreign()
	command.Finish(r, *asJSON, r.Claims.Judge(os.Stderr))
}

// measure makes all rounds.
func (r *results) measure(ctx context.Context, rounds int, length time.Duration) (err error) {
	host, err := weir.NewHost(weir.HostOptions{Policy: r.Policy})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	s, err := admit(ctx, host)
	if err != nil {
		return err
	}
	defer s.model.Close()
	if r.RequestMS, err = s.alone(ctx); err != nil {
		return err
	}
	t, err := open(ctx, host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var alone, beside []float64
	for i := range rounds {
		at := arrivals(uint64(i), length, load/(r.RequestMS/1000))
		a, err := s.serve(ctx, at)
		if err != nil {
			return err
		}
		alone = append(alone, a...)
		one, b, err := r.together(ctx, s, t, at, length)
		if err != nil {
			return err
		}
		beside = append(beside, b...)
		one.Requests, one.AloneP99, one.BesideP99 = len(at), last(a), last(b)
		r.Rounds = append(r.Rounds, one)
		r.Claims.Check("idle time harvested", one.Harvested, leastHarvests, false)
		fmt.Fprintf(os.Stderr, "%+v\n", one)
	}
	r.AloneP99, r.BesideP99 = last(alone), last(beside)
	r.Claims.Check("p99 beside training over alone", r.BesideP99/r.AloneP99, mostP99, true)
	return nil
}

// together serves requests beside the training, and then lets that have the device alone.
func (r *results) together(ctx context.Context, s *served, t *trained, at []time.Duration,
	length time.Duration) (one round, took []float64, err error) {
	used, held := s.used(), t.used()
	begin, from := time.Now(), t.made.Load()
	t.goes(true)
	took, err = s.serve(ctx, at)
	if rest := length - time.Since(begin); rest > 0 {
		time.Sleep(rest)
	}
	wall, made := time.Since(begin), t.made.Load()-from
	used, held = s.used()-used, t.used()-held

	begin, from = time.Now(), t.made.Load()
	time.Sleep(length)
	one.Alone = float64(t.made.Load()-from) / time.Since(begin).Seconds()
	t.goes(false)
	one.Beside = float64(made) / wall.Seconds()
	one.Busy = used.Seconds() / wall.Seconds()
	one.Harvested = one.Beside / (one.Alone * (1 - one.Busy))
	one.Held = held.Seconds() / (wall - used).Seconds()
	return one, took, errors.Join(err, t.failed())
}

// served is the model whose requests are measured.
type served struct {
	model *weir.Model
	job   *weir.Tenant
	in    weir.Inputs
}

// admit makes the neighbour a job of the latency class.
func admit(ctx context.Context, host *weir.Host) (*served, error) {
	g, err := zoo.New(neighbour, zoo.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	shapes, err := feed.Shapes(g.Inputs, nil, nil)
	if err != nil {
		return nil, err
	}
	made, err := feed.Make(g.Inputs, shapes, nil, 1)
	if err != nil {
		return nil, err
	}
	s := &served{in: weir.Inputs{}}
	for i, v := range g.Inputs {
		s.in[v.Name] = made[i]
	}
	dir, err := os.MkdirTemp("", "harvest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, neighbour+".onnx")
	if err := onnx.WriteFile(file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	if s.model, err = weir.Open(file); err != nil {
		return nil, err
	}
	s.job, err = host.Admit(ctx, s.model, weir.Job{Name: neighbour, Shapes: shapes,
		Share: weir.Share{Class: weir.Latency, Compute: 0.4}})
	if err != nil {
		return nil, errors.Join(err, s.model.Close())
	}
	return s, nil
}

func (s *served) once(ctx context.Context) error {
	out, err := s.model.Run(ctx, s.in)
	if err == nil {
		out.Close()
	}
	return err
}

// alone is what a request takes that comes when there is no other, in milliseconds: the median.
func (s *served) alone(ctx context.Context) (float64, error) {
	var took []float64
	for range 50 {
		begin := time.Now()
		if err := s.once(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	return claims.Median(took), nil
}

// used is the device time of all requests up to now.
func (s *served) used() time.Duration { return s.job.Usage().Used }

// arrivals are the times of requests that come at random, so many a second.
func arrivals(seed uint64, length time.Duration, perSecond float64) (at []time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for t := 0.0; ; {
		t += rng.ExpFloat64() / perSecond
		d := time.Duration(t * float64(time.Second))
		if d >= length {
			return at
		}
		at = append(at, d)
	}
}

// serve makes requests at the times given, and returns the milliseconds from then to their answers.
func (s *served) serve(ctx context.Context, at []time.Duration) ([]float64, error) {
	took, errs := make([]float64, len(at)), make([]error, len(at))
	var all sync.WaitGroup
	begin := time.Now()
	for i, d := range at {
		time.Sleep(time.Until(begin.Add(d)))
		all.Go(func() {
			errs[i] = s.once(ctx)
			took[i] = (time.Since(begin) - d).Seconds() * 1000
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// last is the 99th percentile.
func last(took []float64) float64 {
	if len(took) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(took))
	return s[int(0.99*float64(len(s)-1))]
}
