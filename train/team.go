package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/dist"
)

// A process gives a sign of life each beat, and is given up after so many beats without one.
const (
	beat   = 250 * time.Millisecond
	silent = 60
)

// leave ends the team of options.
func (o *Options) leave() error {
	if o.Team != nil {
		o.Team.Close()
	}
	return nil
}

// leads reports whether this process evaluates the run and keeps its checkpoints.
func (r *Run) leads() bool { return r.opts.Team == nil || r.opts.Team.Rank == 0 }

// join maps the memory of the team. A worker says first what it has.
func (r *Run) join() ([][]byte, error) {
	team := r.opts.Team
	if team.Rank > 0 {
		h, err := r.hello()
		if err != nil {
			return nil, err
		}
		if err := team.Greet(h); err != nil {
			return nil, err
		}
	}
	areas, err := team.Map(r.step.State.Bytes())
	if err == nil && team.Rank > 0 {
		go watch(team)
	}
	return areas, err
}

// watch watches a team until it ends.
func watch(t *dist.Team) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	t.Watch(tick.C, silent)
}

// hello is what processes of a team must have in common.
func (r *Run) hello() (dist.Hello, error) {
	build, err := digestOf("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	h := dist.Hello{"build": build}
	for key, what := range map[string]string{keyModel: "model file", keyData: "data",
		keyMachine: "instruction path"} {
		h[what] = r.prints[key]
	}
	var says map[string]any
	if err := json.Unmarshal([]byte(r.prints[keyRecipe]), &says); err != nil {
		return nil, err
	}
	flatten(h, "recipe: ", says)
	parts, buckets, ready := r.buckets()
	plans := sha256.New()
	fmt.Fprintln(plans, r.step.State.Bytes(), parts, buckets, ready)
	for _, v := range r.step.State.Variables() {
		fmt.Fprintf(plans, "%q %v %v\n", v.Name, v.DType, v.Shape)
	}
	for _, p := range r.plans[:] {
		if p != nil {
			fmt.Fprintln(plans, len(p.Steps))
		}
	}
	h["plan"] = hex.EncodeToString(plans.Sum(nil))
	return h, nil
}

// flatten gives each setting of a recipe a name of its own.
func flatten(into dist.Hello, under string, says map[string]any) {
	for k, v := range says {
		if inner, ok := v.(map[string]any); ok {
			flatten(into, under+k+".", inner)
		} else {
			into[under+k] = fmt.Sprint(v)
		}
	}
}

// meet has the workers of a team begin where the run is.
func (r *Run) meet(ctx context.Context) error {
	team := r.opts.Team
	if team == nil {
		return nil
	}
	defer context.AfterFunc(ctx, team.HangUp)() // a worker may be long in coming
	h, err := r.hello()
	if err != nil {
		return err
	}
	if err := team.Meet(h); err != nil {
		return err
	}
	go watch(team)
	if err := team.Order(dist.Order{Take: true, Update: r.done}); err != nil {
		return err
	}
	_, err = team.Answers()
	return err
}

// disband lets workers end, and ends what is summed.
func (r *Run) disband() {
	if t := r.opts.Team; t != nil {
		if r.leads() && t.Failed() == nil {
			_ = t.Order(dist.Order{End: true}) // who is gone has ended, too
		}
		t.HangUp()
	}
	if r.shards != nil && !r.shards.loose {
		r.shards.sum.Close()
		r.shards.loose = true
	}
}

// begin has the workers of a team begin an update.
func (r *Run) begin(e *Event) error {
	if r.opts.Team == nil {
		return nil
	}
	return r.opts.Team.Order(dist.Order{Update: e.Update})
}

// allLosses are the losses of all shards, given those of the leader.
func (r *Run) allLosses(own []float32) ([]float32, error) {
	r.traced(0, r.shards.spans)
	if r.opts.Team == nil {
		return own, nil
	}
	all, err := r.opts.Team.Answers()
	if err != nil {
		return nil, err
	}
	all[0].Busy = r.shards.busy.Seconds()
	for rank, a := range all {
		for _, bits := range a.Losses {
			own = append(own, math.Float32frombits(bits))
		}
		if rank > 0 {
			r.traced(rank, a.Spans)
		}
	}
	if want := r.step.Shards.N * r.recipe.Accumulate; len(own) != want {
		return nil, fmt.Errorf("%w: %d losses of %d shards", dist.ErrPeer, len(own), want)
	}
	r.compare(all)
	return own, nil
}

// compare says, once, which process others wait for.
func (r *Run) compare(all []dist.Answer) {
	const far, row = 2, 20
	least, most, who := math.Inf(1), 0.0, 0
	for rank, a := range all {
		if least = min(least, a.Busy); a.Busy > most {
			most, who = a.Busy, rank
		}
	}
	if most < far*least {
		r.shards.slow = 0
	} else if r.shards.slow++; r.shards.slow == row {
		r.opts.Log.Warn("a process takes far longer than others, which wait for it", "rank", who,
			"seconds", most, "fastest", least)
	}
}

// traced records what a process did in an update.
func (r *Run) traced(rank int, spans []dist.Span) {
	rec := r.opts.Trace
	if rec == nil {
		return
	}
	name := fmt.Sprint("process ", rank)
	computes, sums := rec.Track(name, "shards"), rec.Track(name, "all-reduce")
	now := rec.Now()
	at := func(t time.Time) time.Duration { return now - time.Since(t) }
	for _, s := range spans {
		if s.Bytes > 0 {
			rec.Span(sums, s.What, at(s.Begin), at(s.End), trace.Int("bytes", s.Bytes))
		} else {
			rec.Span(computes, s.What, at(s.Begin), at(s.End))
		}
	}
}

// agree holds that all processes of a team have the same state.
func (r *Run) agree() error {
	team := r.opts.Team
	if team == nil || team.Failed() != nil {
		return nil // a state that was whole before a failure stays so
	}
	if err := team.Order(dist.Order{Digest: true}); err != nil {
		return nil // the next update says so
	}
	all, err := team.Answers()
	if err != nil {
		return nil
	}
	own := checkpoint.Digest(nil, r.vars)
	for rank, a := range all[1:] {
		if a.Digest != own {
			return fmt.Errorf("%w: after update %d the weights of worker %d are others than the "+
				"leader's: nothing is kept: report it, with the memory of this machine tested",
				dist.ErrPeer, r.done, rank+1)
		}
	}
	return nil
}

// Work is what a worker does: what the leader says, until it says that the run has ended. The
// error is of kind [dist.ErrPeer] where the leader, or another process, is gone.
func (r *Run) Work(ctx context.Context) error {
	team := r.opts.Team
	for {
		o, err := team.Next()
		if err != nil || o.End {
			return err
		}
		a, err := r.obey(ctx, o)
		if err != nil {
			a.Error = err.Error()
		}
		if e := team.Answer(a); err != nil || e != nil {
			return cmp.Or(err, e)
		}
		if o.Update > 0 && !o.Take {
			e := r.event()
			if err := r.replace(ctx, &e); err != nil {
				return err
			}
			r.done++
		}
	}
}

// obey does what the leader says, up to where it must know.
func (r *Run) obey(ctx context.Context, o dist.Order) (a dist.Answer, err error) {
	switch {
	case o.Take:
		kept := r.shards.parts[0]
		copy(r.shards.areas[r.opts.Team.Rank][:kept], r.shards.areas[0][:kept])
		r.done = o.Update
		return a, nil
	case o.Digest:
		a.Digest = checkpoint.Digest(nil, r.vars)
		return a, nil
	}
	e := r.event()
	if e.Update != o.Update {
		return a, fmt.Errorf("asked for update %d after %d", o.Update, r.done)
	}
	losses, err := r.ownShards(ctx, &e)
	if err != nil {
		return a, err
	}
	for _, v := range losses {
		a.Losses = append(a.Losses, math.Float32bits(v))
	}
	a.Spans, a.Busy, a.Waited = r.shards.spans, r.shards.busy.Seconds(), r.shards.waited.Seconds()
	return a, nil
}
