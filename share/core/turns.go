package core

import (
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is memory that comes to the device for its job's turn and goes when another's needs the
// room: that of whole programs, which have no iterations. Its driver reserves what the job may hold
// once the job is granted units, and says how long it took (Moved).
//
// Moving is work that serves nobody, so that turns grow with what it takes: a job whose memory has
// come has it there for so much longer that moving takes Config.Moving of the time at most, where
// the quantum of nvshare (Alexopoulos and Mitropoulos, ICSE Companion 2024) is fixed. Until then
// the policy is not told of jobs that wait and whose memory does not fit beside: whoever is in the
// way could not be moved for them. One that has no work keeps its place only for as long as moving
// took: so the device is idle at most as long as it would have taken to move back.

// moving is the part of the time that moving may take unless the configuration says otherwise.
const moving = 0.1

// dwellOf returns for how long memory stays that took so long to come.
func (c *Core) dwellOf(took time.Duration) time.Duration {
	return time.Duration(min(float64(took)*c.stay, float64(latest/2)))
}

// moved takes note that a job's memory has come to the device.
func (c *Core) moved(j *job, took time.Duration) {
	took = min(max(0, took), latest/2)
	c.used(j)
	j.came, j.took = c.now, took
	c.dwells = max(c.dwells, c.now+c.dwellOf(took))
}

// dwell returns until when a job's memory stays for it, 0 if it may go.
func (c *Core) dwell(j *job) time.Duration {
	s := c.state(j)
	until := j.came + c.dwellOf(j.took)
	if s.Phase == share.Idle {
		until = min(until, max(s.Since, j.came)+j.took)
	}
	if until <= c.now || s.Memory.Own() <= s.Memory.Kept() {
		return 0
	}
	return until
}

// goes reports whether of two jobs the first is to give its memory back rather than the other.
func (c *Core) goes(a, b *job) bool {
	if a, b := c.dwell(a), c.dwell(b); a != b {
		return a < b
	}
	if a.shelved != b.shelved {
		return a.shelved
	}
	if a, b := c.state(a).Next.Users, c.state(b).Next.Users; a != b {
		return a < b
	}
	return a.rank < b.rank
}

// iterates reports whether any job is within an iteration.
func (c *Core) iterates() bool {
	return slices.ContainsFunc(c.snap.Jobs, func(s share.JobState) bool { return s.InIteration })
}

// awaits returns until when a job that waits for units has to wait for others' memory to have been
// on the device for long enough, 0 if it does not.
func (c *Core) awaits(j *job) (until time.Duration) {
	m := &c.state(j).Memory
	if c.dwells <= c.now || m.Lane > 0 {
		return 0
	}
	grows := grows(m, Persistent, m.Cap-m.Resident())
	lacks := c.snap.Lacks() + grows
	if grows <= 0 || lacks <= 0 {
		return 0
	}
	for _, o := range c.jobs {
		if o == j {
			continue
		}
		if end := c.dwell(o); end == 0 {
			m := &c.state(o).Memory
			lacks -= max(0, m.Own()-m.Kept())
		} else if until == 0 || end < until {
			until = end
		}
	}
	if lacks <= 0 {
		return 0
	}
	return until
}
