package train

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/scale"
)

// History is how a run went. It is part of checkpoints, but for the times.
type History struct {
	Points  []Point `json:"points,omitempty"` // one an epoch
	Sum     float64 `json:"sum,omitempty"`    // of the losses of the epoch under way
	Count   int64   `json:"count,omitempty"`
	Best    float64 `json:"best,omitempty"`  // loss of an evaluation
	Since   int     `json:"since,omitempty"` // epochs since then
	Stopped bool    `json:"stopped,omitempty"`

	curve  Curve
	steps  []time.Duration
	waited time.Duration
	whole  time.Duration // of updates
	device Curve         // parts of updates for which it was idle
	peers  time.Duration
	hidden float64 // seconds of all-reduce beside the backward half, of all
	summed float64 // of it
}

// Point is what an epoch came to.
type Point struct {
	Epoch  int         `json:"epoch"`
	Update int64       `json:"update"`
	Loss   float64     `json:"loss"` // mean of its updates
	Eval   *Evaluation `json:"eval,omitempty"`
}

// maxTimes bounds the times that are kept for their median.
const maxTimes = 1 << 16

func (h *History) add(loss float64) {
	h.curve.add(loss)
	h.Sum += loss
	h.Count++
}

func (h *History) took(e Event) {
	h.waited += e.Waited
	h.whole += e.Took
	h.device.add(e.Waited.Seconds() / max(e.Took.Seconds(), 1e-9))
	h.peers += e.Peers
	if len(h.steps) < maxTimes {
		h.steps = append(h.steps, e.Took)
	}
}

// idle is the part of updates for which the device waited for data.
func (h *History) idle() float64 { return h.waited.Seconds() / max(h.whole.Seconds(), 1e-9) }

// mean is the mean loss of the epoch under way.
func (h *History) mean() float64 { return h.Sum / float64(max(h.Count, 1)) }

// end ends an epoch; without a better evaluation for patience epochs it ends the run.
func (h *History) end(p Point, patience int) {
	h.Points = append(h.Points, p)
	h.Sum, h.Count = 0, 0
	if p.Eval == nil {
		return
	}
	if first := len(h.Points) == 1; first || p.Eval.Loss < h.Best {
		h.Best, h.Since = p.Eval.Loss, 0
		return
	}
	h.Since++
	h.Stopped = h.late(patience)
}

// late reports whether the last better evaluation is too many epochs ago.
func (h *History) late(patience int) bool { return patience > 0 && h.Since >= patience }

// Keys of the metadata of checkpoints.
const (
	keyUpdate  = "weir.update"
	keyHistory = "weir.history"
	keySeed    = "weir.seed"
	keySamples = "weir.samples" // of a batch, an update and an epoch
	keyEnded   = "weir.ended"   // whether the run had nothing left to do
)

// meta is what a checkpoint holds beside the variables.
func (r *Run) meta() (map[string]string, error) {
	text, err := json.Marshal(&r.history)
	meta := maps.Clone(r.prints)
	meta[keyUpdate], meta[keyHistory] = strconv.FormatInt(r.done, 10), string(text)
	meta[keySeed], meta[keySamples] = strconv.FormatUint(r.recipe.Seed, 10), r.samples()
	meta[keyEnded] = strconv.FormatBool(r.Ended())
	return meta, err
}

// samples is what says which samples an update has.
func (r *Run) samples() string {
	return fmt.Sprintf("%d of %d of %d", r.data.batch, r.data.update, len(r.data.train.rows))
}

// restore takes over what a checkpoint holds beside the variables.
func (r *Run) restore(meta map[string]string) error {
	done, err := strconv.ParseInt(meta[keyUpdate], 10, 64)
	var h History
	if err == nil {
		err = json.Unmarshal([]byte(meta[keyHistory]), &h)
	}
	if err == nil && done < 0 {
		err = fmt.Errorf("it is of update %d", done)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrCheckpoint, err)
	}
	if seed := strconv.FormatUint(r.recipe.Seed, 10); meta[keySeed] != seed {
		return fmt.Errorf("%w: it is of seed %s, the recipe has %s: begin anew, or take that seed",
			checkpoint.ErrCheckpoint, meta[keySeed], seed)
	}
	if now := r.samples(); meta[keySamples] != now {
		return fmt.Errorf("%w: batches, updates and epochs are of %s samples, those of the recipe "+
			"of %s: begin anew, or take those", checkpoint.ErrCheckpoint, meta[keySamples], now)
	}
	if err := r.same(meta); err != nil {
		return err
	}
	h.Stopped = h.late(r.recipe.Patience)
	r.kept = done
	r.done, r.history = done, h
	r.opts.Log.Info("goes on from a checkpoint", "update", done)
	return nil
}

// scale is what the loss is multiplied by.
func (r *Run) scale() float64 {
	if t := r.variable(scale.VarScale); t != nil {
		return float64(tensor.As[float32](t)[0])
	}
	return 1
}

// Result is what a run came to. Its JSON fields are those of weir train.
type Result struct {
	Steps       int64   `json:"steps"` // updates in all
	Loss        float64 `json:"loss"`  // mean over the last epoch
	Metric      float64 `json:"metric"`
	MetricName  string  `json:"metric_name,omitempty"`
	EvalLoss    float64 `json:"eval_loss"`
	StepMS      float64 `json:"step_ms"` // median of an update, with its data
	SamplesPerS float64 `json:"samples_per_s"`
	// DataWaitShare is the part of the time of updates for which the device was idle, as the next
	// batch was not made yet; Idle is that of the points of Curve.
	DataWaitShare float64   `json:"data_wait_share"`
	Idle          []float64 `json:"device_idle"`
	ArenaBytes    int64     `json:"arena_bytes"`
	StateBytes    int64     `json:"state_bytes"`
	SkippedSteps  int64     `json:"skipped_steps"`
	Scale         float64   `json:"scale"`  // of the loss
	Digest        string    `json:"digest"` // of the state: equal runs have equal digests
	Model         string    `json:"model,omitempty"`
	Threads       int       `json:"threads"` // of each process
	Processes     int       `json:"processes"`
	// PeerWaitShare is the part of the time of updates for which this process waited for others
	// with nothing left to compute, and OverlapShare the part of the time of sums over processes
	// in which it still computed.
	PeerWaitShare float64 `json:"peer_wait_share"`
	OverlapShare  float64 `json:"overlap_share"`
	Seconds       float64 `json:"seconds"`
	Points        []Point `json:"epochs"`
	Curve         Curve   `json:"curve"` // of the updates since the run was opened
}

// result sums a run up.
func (r *Run) result(took time.Duration, updates int64) *Result {
	h := &r.history
	res := &Result{Steps: r.done, Loss: h.mean(), StateBytes: r.step.State.Bytes(),
		Scale: r.scale(), Threads: r.opts.Pool.Threads(), Seconds: took.Seconds(), Points: h.Points,
		Curve: h.curve}
	res.ArenaBytes, res.SkippedSteps = arenas(r.plans), r.skipped()
	res.Processes = r.ranks
	if h.summed > 0 {
		res.OverlapShare = h.hidden / h.summed
	}
	if meta, err := r.meta(); err == nil {
		res.Digest = checkpoint.Digest(meta, r.vars)
	}
	if n := len(h.Points); n > 0 && h.Count == 0 {
		res.Loss = h.Points[n-1].Loss
		if e := h.Points[n-1].Eval; e != nil {
			res.Metric, res.MetricName, res.EvalLoss = e.Metric, e.Name, e.Loss
		}
	}
	if len(h.steps) == 0 {
		return res
	}
	sorted := slices.Clone(h.steps)
	slices.Sort(sorted)
	res.StepMS = float64(sorted[len(sorted)/2]) / float64(time.Millisecond)
	res.SamplesPerS = float64(updates) * float64(r.data.update) / max(h.whole.Seconds(), 1e-9)
	res.DataWaitShare, res.Idle = h.idle(), h.device.Losses
	res.PeerWaitShare = h.peers.Seconds() / max(h.whole.Seconds(), 1e-9)
	return res
}
