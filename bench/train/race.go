package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// weirs is the name under which weir takes part in a race.
const weirs = "weir"

// six are the models of which issue 15 bounds the geometric mean of times over the fastest rival's.
var six = []string{"resnet50", "mobilenet_v2", "minilm", "bert", "digits", "lstm"}

// common is how models are trained in a race beside all rivals: the one optimizer with moments that
// each of them has, at a rate at which all models learn.
var common = optimizer{step.AdamW.Defaults(), 1e-4}

// racer is who makes updates in turn with others; time returns the milliseconds of each of n.
type racer struct {
	name string
	time func(ctx context.Context, n int) ([]float64, error)
}

// race is what updates of a model took.
type race struct {
	Model   string               `json:"model"`
	Rounds  map[string][]float64 `json:"rounds_ms"`         // of weir and each rival, a number a round
	MS      map[string]float64   `json:"ms"`                // medians of the rounds
	Fastest string               `json:"fastest"`           // rival
	Over    []float64            `json:"over"`              // weir's over its, a number a round
	Without map[string]string    `json:"without,omitempty"` // rivals that don't train it, and why
}

// turns times updates of each, so many a turn, after one that is not timed: while others have their
// turn, systems take back pages of who stands still. The order moves on by one from round to round,
// so that each is the first as often. A number is the median of a turn.
func turns(ctx context.Context, racers []racer, rounds, each int,
	tell io.Writer) (map[string][]float64, error) {
	took := map[string][]float64{}
	for r := range rounds {
		for i := range racers {
			at := racers[(r+i)%len(racers)]
			ms, err := at.time(ctx, 1+each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", at.name, err)
			}
			took[at.name] = append(took[at.name], claims.Median(ms[1:]))
		}
		fmt.Fprintf(tell, "round %d of %d:", r+1, rounds)
		for _, at := range racers {
			fmt.Fprintf(tell, " %s %.2f;", at.name, took[at.name][r])
		}
		fmt.Fprintln(tell, " ms")
	}
	return took, nil
}

// judged finds the fastest rival of a race, by the median of its rounds, and weir's times over its
// in each of these; with no rival there is none.
func judged(model string, took map[string][]float64) race {
	r := race{Model: model, Rounds: took, MS: map[string]float64{}}
	for name, ms := range took {
		m := claims.Median(ms)
		r.MS[name] = m
		if name != weirs && (r.Fastest == "" || m < r.MS[r.Fastest] ||
			m == r.MS[r.Fastest] && name < r.Fastest) {
			r.Fastest = name
		}
	}
	if r.Fastest != "" {
		for i, ms := range took[weirs] {
			r.Over = append(r.Over, ms/took[r.Fastest][i])
		}
	}
	return r
}

// mean is the geometric mean of the medians of weir's times over the fastest rivals', of models
// that have to be there.
func mean(races []race, models []string) (float64, bool) {
	sum := 0.0
	for _, name := range models {
		i := slices.IndexFunc(races, func(r race) bool { return r.Model == name })
		if i < 0 || len(races[i].Over) == 0 {
			return 0, false
		}
		sum += math.Log(claims.Median(races[i].Over))
	}
	return math.Exp(sum / float64(len(models))), true
}

// race times updates of a model by weir and by rivals that have begun it, and holds those of weir
// against the fastest rival's.
func (b *bench) race(ctx context.Context, s *subject, t *training, without map[string]string,
	beside []*rival) error {
	if b.rounds == 0 {
		return nil
	}
	racers := []racer{{weirs, t.time}}
	for _, r := range beside {
		racers = append(racers, racer{r.name, r.peer.time})
	}
	fmt.Fprintf(os.Stderr, "times %s\n", s.name)
	took, err := turns(ctx, racers, b.rounds, s.turn, os.Stderr)
	if err != nil {
		return err
	}
	r := judged(s.name, took)
	r.Without = without
	b.Races = append(b.Races, r)
	rival := "the fastest rival"
	if !b.races {
		rival = r.Fastest
	}
	for _, over := range r.Over {
		b.Claims.Check(s.name+", update over "+rival+"'s", over, mostTime, true)
	}
	return nil
}

// contest races a model beside all rivals.
func (b *bench) contest(ctx context.Context, s *subject, of *batches) (err error) {
	folder, err := os.MkdirTemp("", "weir-train-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	asked := request{Model: s.name, Race: true, Threads: b.Threads, Shape: s.shape,
		Tokens: s.tokens, Shapes: map[string][]int{}}
	if s.exact != nil {
		if of, err = b.export(s, folder); err != nil {
			return err
		}
		asked.Folder = folder
	}
	t, err := open(ctx, b.on, s, common, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for _, p := range t.step.Params {
		if p.Role != step.Mean && p.Role != step.Variance {
			asked.Shapes[p.Name] = p.Start.Shape
		}
	}
	if s.exact == nil {
		asked.Weights, asked.X = t.weights(), of.x
	}
	asked.Y, asked.Updates, asked.Export = of.y, 2*len(of.y), filepath.Join(folder, "raced.onnx")
	if err := t.write(s, asked.Export); err != nil {
		return err
	}
	losses, err := t.some(ctx, asked.Updates)
	if err == nil {
		err = falling(losses)
	}
	if err != nil {
		return err
	}
	beside, without, err := b.begin(ctx, rivals, asked, losses[0])
	if err == nil {
		err = b.race(ctx, s, t, without, beside)
	}
	for _, r := range beside {
		err = errors.Join(err, r.peer.stop())
	}
	return err
}

// write writes the model with the weights of now, and under their names.
func (t *training) write(s *subject, file string) error {
	g, done, err := s.graph()
	if err != nil {
		return err
	}
	now := t.weights()
	for _, v := range g.Constants() {
		if w, trained := now[v.Name]; trained {
			*v = *graph.NewConst(v.Name, tensor.From(w.Data, w.Shape...))
		}
	}
	return errors.Join(onnx.WriteFile(file, g, onnx.WriteOptions{}), done())
}

// some makes n updates, and returns their losses.
func (t *training) some(ctx context.Context, n int) (losses []float64, err error) {
	for range n {
		loss, err := t.next(ctx)
		if err != nil {
			return nil, err
		}
		losses = append(losses, loss)
	}
	return losses, nil
}

// falling refuses losses of two passes over the same batches of which the second is not better.
func falling(losses []float64) error {
	half, sums := len(losses)/2, [2]float64{}
	for i := range 2 * half {
		sums[i/half] += losses[i] / float64(half)
	}
	if !(sums[1] < sums[0]) {
		return fmt.Errorf("it does not learn: a mean loss of %.4f, then of %.4f", sums[0], sums[1])
	}
	return nil
}

// print shows who took how long.
func (r *race) print(w io.Writer) {
	for _, name := range slices.SortedFunc(maps.Keys(r.MS), func(a, b string) int {
		return cmp.Compare(r.MS[a], r.MS[b])
	}) {
		fmt.Fprintf(w, "        %s, %s: %.3f ms\n", r.Model, name, r.MS[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		fmt.Fprintf(w, "        %s, without %s: %s\n", r.Model, name, r.Without[name])
	}
}
