package evict

import "math"

// Uses counts how often the jobs of one device are used, of which what is long ago weighs less: a
// use counts half when [recent] others a job have followed it, whoever's they are. The measure is
// uses and not time, so that a device that is asked ten times as often forgets nothing sooner. Uses
// of a job with no other's between count once: no rule could have it lose its memory there, and a
// job that is asked in bursts, or for ever, would make all others look alike (the correlated
// references of O'Neil, O'Neil and Weikum, SIGMOD 1993). The zero value is ready.
type Uses struct{ n int64 }

// recent is how many uses a job it takes until an earlier one counts half.
const recent = 8

// Count is how often one job was used. The zero value is that of a new one.
type Count struct {
	often float64
	at    int64 // the last one of Uses
}

// Add counts a use of the job with this count, of so many jobs, and returns how often it was used:
// at least 1.
func (u *Uses) Add(c *Count, jobs int) float64 {
	if c.often > 0 && c.at == u.n {
		return c.often
	}
	u.n++
	c.often = 1 + c.often*math.Exp2(-float64(u.n-c.at)/float64(recent*max(1, jobs)))
	c.at = u.n
	return c.often
}

// Often returns what Add did last, at least 1.
func (c *Count) Often() float64 { return max(1, c.often) }
