package share

import "fmt"

// This file is the memory of Salus: Yu and Chowdhury, "Fine-grained GPU sharing primitives for deep
// learning applications", MLSys 2020, section 3.3.
//
//	paper                          here
//	persistent memory P            Memory.Kept, what jobs hold beside in turn, Memory.Bends, but
//	                               once for all of them
//	ephemeral memory E             Memory.Shared, from Job.Ephemeral
//	GPU lane, its size L           Memory.Lane, the largest Shared of its jobs
//	safety condition               sum of all P + sum of all L <= device memory
//
// Departures: lanes are counted, not placed, so none has to be moved when another shrinks; their
// number is bounded, and a job that says nothing of ephemeral memory is in none.

// Lane returns the lane in which the job, which is not among those of the snapshot, fits: its own
// if it is in one, else 0 for a job that shares nothing, else, as in Salus, a new lane if there is
// memory for it, the smallest that is large enough, or the one that has to grow least. The error is
// an [ErrNoMemory] that says what would fit.
func (s *Snapshot) Lane(j *JobState) (int, error) {
	size := make([]Bytes, s.Lanes+1)
	own, bends := j.Memory.Kept(), j.Memory.Bends
	left := s.Memory - own
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		left -= m.Kept()
		bends = max(bends, m.Bends)
		left -= max(0, m.Shared-size[m.Lane])
		size[m.Lane] = max(size[m.Lane], m.Shared)
	}
	left -= bends
	lane := j.Memory.Lane
	if lane == 0 && j.Memory.Shared > 0 {
		lane = choose(size, j.Memory.Shared, left)
	}
	grows := max(0, j.Memory.Shared-size[lane])
	if grows <= left {
		return lane, nil
	}
	return 0, fmt.Errorf("wants %v of its own and %v of a lane, which is %v more for lane %d, has "+
		"%v of %v not promised: %w: lower its memory or end another job", own.About(),
		j.Memory.Shared.About(), grows.About(), lane, max(0, left+own).About(), s.Memory.About(),
		ErrNoMemory)
}

// lanes returns what all lanes take.
func (s *Snapshot) lanes() (sum Bytes) {
	if s.Lanes == 0 {
		return 0
	}
	size := make([]Bytes, s.Lanes+1)
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		sum += max(0, m.Shared-size[m.Lane])
		size[m.Lane] = max(size[m.Lane], m.Shared)
	}
	return sum
}

// choose returns the lane for so much ephemeral memory, of lanes of these sizes, with so much
// memory left for it.
func choose(size []Bytes, wants, left Bytes) int {
	best := 1
	for lane := 1; lane < len(size); lane++ {
		switch now := size[lane]; {
		case now == 0 && wants <= left:
			return lane
		case size[best] >= wants && (now < wants || now >= size[best]):
		case now > size[best] || now >= wants:
			best = lane
		}
	}
	return best
}
