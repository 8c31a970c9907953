package train

import (
	"slices"
	"time"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// SetRoom sets Options.Room of a run that is open.
func (r *Run) SetRoom(room func(error) bool) { r.opts.Room = room }

// Drawn are the seed and the batch from which an update has drawn last.
func (r *Run) Drawn() []int64 { return tensor.As[int64](r.train.input(step.InputDraw)) }

// Spoil changes a weight.
func (r *Run) Spoil() { r.vars[0].Data[0] ^= 1 }

// Used is how many batches were made in the background.
func (r *Run) Used() int { return r.used }

// Filled are the numbers of an input of an update for samples in an epoch.
func (r *Run) Filled(name string, rows []int, epoch int) []byte {
	if err := r.fill(r.train, &r.data.train, rows, epoch); err != nil {
		panic(err)
	}
	return slices.Clone(r.train.input(name).Data)
}

// Variable are the numbers of a variable.
func (r *Run) Variable(name string) []float32 { return tensor.As[float32](r.variable(name)) }

// Has reports whether there is a variable of that name.
func (r *Run) Has(name string) bool { return r.variable(name) != nil }

// Took notes updates as if they had been made, each of which took, and waited for other processes,
// so long, and returns what the run came to by them.
func (r *Run) Took(updates int64, took, peers time.Duration) *Result {
	for range updates {
		r.history.took(Event{Took: took, Peers: peers})
	}
	return r.result(0, updates)
}

// Coming are the samples that come next, and their epoch.
func (r *Run) Coming() (rows []int, epoch int) { return r.samplesOf(place{done: r.done}) }
