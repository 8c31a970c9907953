package training

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// Options say what is trained. Server and Recipes must be given.
type Options struct {
	Server  *server.Server
	Recipes []string // files
	// Begin is closed once trainings may begin, such as when the models are loaded; nil: at once.
	Begin <-chan struct{}
	// Log is told what a person may want to know; nil stands for slog.Default.
	Log *slog.Logger
}

// Trainings are those of a server. It needs [Trainings.Close].
type Trainings struct {
	o    Options
	stop context.Context // done once Close was called
	end  context.CancelFunc
	all  []*training
	work sync.WaitGroup
	late context.Context         // done when Close waits no longer
	hush context.CancelCauseFunc // of that

	readers auth.Streams // of events
}

// Phase is where a training is.
type Phase string

// The phases.
const (
	// Waiting is for memory, for the server's models, or for who else keeps checkpoints in the
	// training's folder, such as a server that is about to end.
	Waiting Phase = "waiting"
	Running Phase = "running"
	Paused  Phase = "paused"
	Stopped Phase = "stopped" // its memory is given back; it goes on once it is told to
	Done    Phase = "done"
	Failed  Phase = "failed"
)

// Curve is a value by update.
type Curve struct {
	Updates []int64   `json:"updates"`
	Values  []float64 `json:"values"`
}

// Input is an input of the model that is trained.
type Input struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

// State is a training as people see it.
type State struct {
	Name   string `json:"name"`
	Recipe string `json:"recipe"`
	Phase  Phase  `json:"phase"`
	Reason string `json:"reason,omitempty"`

	Update       int64   `json:"update"`
	Updates      int64   `json:"updates"`
	Epoch        int     `json:"epoch"`
	Loss         float64 `json:"loss"`
	EvalLoss     float64 `json:"eval_loss"`
	Metric       float64 `json:"metric"`
	MetricName   string  `json:"metric_name,omitempty"`
	Rate         float64 `json:"rate"`
	Scale        float64 `json:"scale"` // of the loss
	StepMS       float64 `json:"step_ms"`
	WaitedShare  float64 `json:"data_wait_share"`
	DeviceS      float64 `json:"device_seconds"`
	DeviceRecent float64 `json:"device_recent"` // the fraction of the device over the last second
	MemoryBytes  int64   `json:"memory_bytes"`
	NeedBytes    int64   `json:"need_bytes"`
	WholeBytes   int64   `json:"whole_bytes"` // needed where no cap bounds it
	Revocations  int64   `json:"revocations"` // how often the device was asked back
	Digest       string  `json:"digest,omitempty"`
	Model        string  `json:"model,omitempty"` // the file, once it is written

	// Inputs are those of the model, for one sample; numbers of data files are divided by Divide.
	Inputs []Input `json:"inputs"`
	Divide float64 `json:"divide"`

	LossCurve   Curve `json:"loss_curve"`
	MetricCurve Curve `json:"metric_curve"`
}

// Open reads the recipes and begins to follow them, each from its newest checkpoint.
func Open(o Options) (*Trainings, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	t := &Trainings{o: o}
	t.late, t.hush = context.WithCancelCause(context.Background())
	for _, path := range o.Recipes {
		r, err := recipe.Load(path)
		if err != nil {
			return nil, err
		}
		if r.Checkpoint.To == "" {
			return nil, fmt.Errorf("%s: %w: it keeps no checkpoints to go on from: give it "+
				"checkpoint: {to: FOLDER}", path, recipe.ErrRecipe)
		}
		t.all = append(t.all, t.training(path, r))
	}
	t.stop, t.end = context.WithCancel(context.Background())
	for _, one := range t.all {
		t.work.Go(one.run)
	}
	return t, nil
}

// training names one after its recipe, or the folder of a recipe.yaml.
func (t *Trainings) training(path string, r *recipe.Recipe) *training {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if full, err := filepath.Abs(path); base == "recipe" && err == nil {
		base = filepath.Base(filepath.Dir(full))
	}
	name := base
	for i := 2; t.find(name) != nil; i++ {
		name = fmt.Sprint(base, "-", i)
	}
	one := &training{of: t, recipe: r, orders: make(chan order), changed: make(chan struct{}),
		state: State{Name: name, Recipe: path, Phase: Waiting, Scale: 1}}
	one.recall()
	return one
}

func (t *Trainings) find(name string) *training {
	for _, one := range t.all {
		if one.state.Name == name {
			return one
		}
	}
	return nil
}

// Close has all trainings make the update under way to its end and keep a checkpoint, and waits for
// that. Once ctx is done, room for a checkpoint is waited for no longer, and neither is an
// evaluation or update that takes long: what was computed since the newest checkpoint is then
// computed again when the training goes on.
func (t *Trainings) Close(ctx context.Context) {
	t.end()
	defer t.hush(nil)
	defer context.AfterFunc(ctx, func() { t.hush(errLate) })()
	t.work.Wait()
}

// List are all of them, in the order of the recipes.
func (t *Trainings) List() (list []State) {
	for _, one := range t.all {
		list = append(list, one.now())
	}
	return list
}

// lookAgain is after how long a training that waits for memory asks for it again.
var lookAgain = 2 * time.Second // which tests change

// training is one recipe that is followed. Its goroutine has all but what mu guards.
type training struct {
	of     *Trainings
	recipe *recipe.Recipe
	orders chan order

	keeping sync.Mutex // held while what was ordered is written

	mu      sync.Mutex
	state   State
	job     *server.Workplace // nil without memory
	terms   weir.Share        // Memory 0: what it needs
	held    Phase             // Paused or Stopped by an order, or empty
	waits   int               // for disk room since its memory was recalled
	changed chan struct{}     // closed at the next change of the state
	waited  time.Duration
	took    time.Duration
}

// set changes the state.
func (t *training) set(f func(s *State)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.state)
	close(t.changed)
	t.changed = make(chan struct{})
}

// phase brings the state to a phase, for a reason.
func (t *training) phase(to Phase, why error) {
	t.set(func(s *State) {
		s.Phase, s.Reason = to, ""
		if why != nil {
			s.Reason, _, _ = strings.Cut(why.Error(), "\n")
		}
	})
}

// now is the state, with what the host says of the job.
func (t *training) now() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state
	s.LossCurve, s.MetricCurve = s.LossCurve.clone(), s.MetricCurve.clone()
	s.DeviceRecent, s.MemoryBytes = 0, 0
	if t.job != nil {
		u := t.job.Job().Status()
		s.DeviceS += u.Used.Seconds()
		s.DeviceRecent = t.job.Job().Account().Recent
		s.MemoryBytes, s.Revocations = int64(u.Memory.Resident()), s.Revocations+
			u.Counts.Revocations
	}
	return s
}

// run follows the recipe to its end, or until the server stops.
func (t *training) run() {
	if b := t.of.o.Begin; b != nil {
		select {
		case <-b:
		case <-t.of.stop.Done():
			return
		}
	}
	p, err := train.Prepare(t.of.stop, t.recipe, t.of.o.Server.Machine())
	if err != nil {
		t.fail(err)
		return
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.of.o.Log.Warn("model not closed", "training", t.state.Name, "error", err)
		}
	}()
	if err := p.Within(t.of.stop, int64(t.terms.Memory)); err != nil {
		t.fail(err)
		return
	}
	t.set(func(s *State) {
		s.NeedBytes, s.WholeBytes = p.Bytes(), p.Whole()
		s.describe(p)
	})
	if t.held == Stopped {
		t.phase(Stopped, nil)
		if !t.rest(p) {
			return
		}
	}
	for t.of.stop.Err() == nil {
		err := t.attempt(p)
		switch {
		case err == nil:
			return
		case errors.Is(err, errAnew):
		case errors.Is(err, errStop):
			t.phase(Stopped, err)
			if !t.rest(p) {
				return
			}
		case errors.Is(err, weir.ErrMemory), errors.Is(err, server.ErrRecalled),
			errors.Is(err, filelock.ErrTaken):
			t.phase(Waiting, err)
			if !t.rest(p) {
				return
			}
		case t.of.stop.Err() != nil:
			t.phase(Waiting, err)
		default:
			t.fail(err)
			return
		}
	}
}

// describe tells what a sample is made of.
func (s *State) describe(p *train.Prepared) {
	inputs, divide := p.Inputs()
	s.Inputs, s.Divide = []Input{}, divide
	for _, v := range inputs {
		datatype, _ := oip.Datatype(v.Type.DType)
		shape, _ := v.Type.Ints()
		shape[0] = 1
		s.Inputs = append(s.Inputs, Input{v.Name, datatype, shape})
	}
}

func (t *training) fail(err error) {
	t.phase(Failed, err)
	t.of.o.Log.Error("training failed", "training", t.state.Name, "error", err)
}

// Progress takes what a run has come to.
func (t *training) progress(e train.Event) {
	t.set(func(s *State) {
		s.Update, s.Updates, s.Epoch = e.Update, e.Updates, e.Epoch
		if e.Eval != nil {
			s.EvalLoss, s.Metric, s.MetricName = e.Eval.Loss, e.Eval.Metric, e.Eval.Name
			s.MetricCurve.add(e.Update, e.Eval.Metric)
			return
		}
		s.Loss, s.Rate, s.Scale = e.Loss, e.Rate, e.Scale
		s.LossCurve.add(e.Update, e.Loss)
		t.waited, t.took = t.waited+e.Waited, t.took+e.Took
		s.StepMS = float64(e.Took) / float64(time.Millisecond)
		s.WaitedShare = t.waited.Seconds() / max(t.took.Seconds(), 1e-9)
	})
}

// mostPoints bounds a curve: it is thinned when it is full.
const mostPoints = 512

func (c *Curve) add(update int64, v float64) {
	if n := len(c.Updates); n > 0 && c.Updates[n-1] >= update {
		return // it went on from a checkpoint
	}
	c.Updates, c.Values = append(c.Updates, update), append(c.Values, v)
	if len(c.Updates) < mostPoints {
		return
	}
	for i := range mostPoints / 2 {
		c.Updates[i], c.Values[i] = c.Updates[2*i+1], (c.Values[2*i]+c.Values[2*i+1])/2
	}
	c.Updates, c.Values = c.Updates[:mostPoints/2], c.Values[:mostPoints/2]
}

func (c Curve) clone() Curve {
	return Curve{append([]int64{}, c.Updates...), append([]float64{}, c.Values...)}
}
