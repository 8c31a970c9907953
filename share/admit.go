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
	// ErrNever is an [ErrNoMemory]: there would be too little if all others had left.
	ErrNever = fmt.Errorf("%w, whatever others leave", ErrNoMemory)
)

// FitsMemory returns nil if the job's memory fits beside that of the snapshot's jobs, which do not
// include it, in lanes where there are any, else an [ErrNoMemory] that says what would. It fits if
// there is room for what is set apart for all of them, and for that of which any one of them holds
// most beside: whatever is asked back, each can then be given its cap. It is an [ErrNever] where it
// would not fit beside none.
func (s *Snapshot) FitsMemory(j *JobState) error {
	if n := j.Memory.Cap; n > s.Memory {
		return fmt.Errorf("wants %v, the device has %v: %w: lower its memory", n.About(),
			s.Memory.About(), ErrNever)
	}
	if s.Lanes > 0 {
		_, err := s.Lane(j)
		return err
	}
	left, bends := s.Memory, Bytes(0)
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		left -= m.Kept()
		bends = max(bends, m.Bends)
	}
	kept, most := j.Memory.Kept(), max(bends, j.Memory.Bends)
	switch {
	case kept+most <= left:
		return nil
	case most == 0:
		return fmt.Errorf("wants %v, has %v of %v not promised: %w: lower its memory or end "+
			"another job", kept.About(), max(0, left).About(), s.Memory.About(), ErrNoMemory)
	}
	return fmt.Errorf("wants to keep %v beside %v that jobs use in turn, has %v of %v not "+
		"promised: %w: lower what it keeps, its memory, or end another job", kept.About(),
		most.About(), max(0, left).About(), s.Memory.About(), ErrNoMemory)
}

// Promised returns what is set apart for all jobs, and in lanes.
func (s *Snapshot) Promised() Bytes {
	n := s.lanes()
	for i := range s.Jobs {
		n += s.Jobs[i].Memory.Kept()
	}
	return n
}

// Lacks returns how much more than the device's memory it takes to set apart for all jobs what is
// to be kept for each, lanes, and what they hold beside; below 0: how much is left for what they
// may hold in turn.
func (s *Snapshot) Lacks() Bytes {
	n := -s.Memory
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		n += max(m.Kept(), m.Own())
	}
	return n + s.lanes()
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
