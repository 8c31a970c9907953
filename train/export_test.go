package train

import (
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
