package share

import (
	"errors"
	"fmt"
)

// Kinds of the errors of admission.
var (
	// ErrNoMemory: the device has promised its memory to others.
	ErrNoMemory = errors.New("not enough device memory left")
	// ErrNoCompute: the device has promised its compute to others.
	ErrNoCompute = errors.New("not enough device compute left")
)

// FitsMemory returns nil if the job's cap of memory fits beside the caps of the snapshot's jobs,
// which do not include it, in lanes where there are any, else an [ErrNoMemory] that says what
// would.
func (s *Snapshot) FitsMemory(j *JobState) error {
	if s.Lanes > 0 {
		_, err := s.Lane(j)
		return err
	}
	left := s.Memory
	for i := range s.Jobs {
		left -= s.Jobs[i].Memory.Cap
	}
	if j.Memory.Cap <= left {
		return nil
	}
	return fmt.Errorf("wants %v, has %v of %v not promised: %w: lower its memory or end another "+
		"job", j.Memory.Cap.About(), max(0, left).About(), s.Memory.About(), ErrNoMemory)
}

// FitsCompute returns nil if the job's guarantee fits beside those of the snapshot's jobs, which do
// not include it, else an [ErrNoCompute] that says what would.
func (s *Snapshot) FitsCompute(j *JobState) error {
	left := 1.0
	for i := range s.Jobs {
		left -= s.Jobs[i].Share.Guarantee()
	}
	// The tolerance lets ten jobs have a tenth each.
	if j.Share.Guarantee() <= left+1e-9 {
		return nil
	}
	return fmt.Errorf("wants a guarantee of %.4g, has %.4g not promised: %w: lower its compute or "+
		"end another job", j.Share.Guarantee(), max(0, left), ErrNoCompute)
}
