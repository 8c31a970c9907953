package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

// turns is what becomes of jobs that always have work, the first of which is found to have used
// what found says of each of its turns, and pauses after it: its turns, and what all jobs used.
type turns struct {
	of    [][2]time.Duration
	share []float64
}

func takeTurns(t *testing.T, spec string, shares []share.Share, d time.Duration,
	found func(turn int, held time.Duration) (used, pause time.Duration)) (r turns) {
	p := mustNew(t, spec)
	s := &share.Snapshot{Units: 1, Memory: 1 << 30}
	for i, of := range shares {
		s.Jobs = append(s.Jobs, share.JobState{ID: share.JobID(i + 1), Phase: share.Waiting,
			Remaining: -1, Share: of, State: p.(share.Stateful).NewJobState()})
	}
	first, back := &s.Jobs[0], time.Duration(0)
	for s.Now < d {
		if first.Phase == share.Idle && s.Now >= back {
			first.Phase = share.Waiting
		}
		next := p.Decide(s)
		if len(next.Set) == 0 {
			at := max(next.Wake, s.Now+1)
			if first.Phase == share.Idle && (next.Wake <= s.Now || back < at) {
				at = back
			}
			s.Now = at
			continue
		}
		j, from := s.Job(next.Set[0].Job), s.Now
		s.Now = next.Set[0].Until
		j.Used += s.Now - from
		if j != first {
			continue
		}
		r.of = append(r.of, [2]time.Duration{from, s.Now})
		used, pause := found(len(r.of), s.Now-from)
		if used >= 0 {
			first.MeasuredAt = s.Now
			first.Measured = min(first.Used, first.Measured+used)
		}
		if pause > 0 {
			first.Phase, back = share.Idle, s.Now+pause
		}
	}
	for i := range s.Jobs {
		r.share = append(r.share, s.Jobs[i].Used.Seconds()/s.Now.Seconds())
	}
	return r
}

// TestGuaranteeBesideLimit: a neighbour's guarantee does not pay for what a limit has back, nor a
// neighbour's part where it is not the limit that holds the job.
func TestGuaranteeBesideLimit(t *testing.T) {
	nothing := func(int, time.Duration) (time.Duration, time.Duration) { return 0, 0 }
	for _, c := range []struct {
		shares []share.Share
		want   float64
	}{
		{[]share.Share{{Limit: 0.3, Compute: 0.3}, {Compute: 0.7}}, 0.7},
		{[]share.Share{{Limit: 0.7, Compute: 0.7}, {Compute: 0.3}}, 0.3},
		{[]share.Share{{Limit: 0.5}, {}, {}}, 1. / 3},
		// Where nobody was promised it, others pay.
		{[]share.Share{{Limit: 0.3, Compute: 0.3}, {}}, 0.7 - 0.02*3/4},
		{[]share.Share{{Limit: 0.3, Compute: 0.25}, {Compute: 0.25}}, 0.7 - 0.02*3/4},
	} {
		for _, spec := range []string{"fair", "priority"} {
			got := takeTurns(t, spec, c.shares, 10*time.Second, nothing).share[1]
			if got < c.want-0.001 || got > c.want+0.002 {
				t.Errorf("%s: %+v: the second got %.4f, want %.4f", spec, c.shares, got, c.want)
			}
		}
	}
}

// TestLimitWhateverIsFound: however a program lies about what it used, it holds no more over any
// window than its limit and the burst, and a fifteenth of both.
func TestLimitWhateverIsFound(t *testing.T) {
	const burst = 4 * ms * 16 / 15
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := []float64{0.05, 0.3, 0.7}[r.IntN(3)]
		shares := append([]share.Share{{Limit: limit}}, make([]share.Share, r.IntN(3))...)
		period, kind, pause := 1+r.IntN(200), r.IntN(3), time.Duration(r.IntN(50))*ms
		of := takeTurns(t, "fair", shares, 3*time.Second,
			func(turn int, held time.Duration) (used, rests time.Duration) {
				if turn%period == 0 {
					rests = pause
				}
				switch {
				case kind == 0 && turn/period%2 == 0: // all, then nothing
					return held, rests
				case kind == 1 && turn%period == 0: // all at once
					return time.Hour, rests
				case kind == 2 && r.IntN(2) == 0:
					return -1, rests
				case kind == 2:
					return time.Duration(r.Float64() * 1.5 * float64(held)), rests
				}
				return 0, rests
			}).of
		over, rate := 0.0, limit*16/15
		for i := range of {
			if i > 0 {
				over = max(0, over-rate*float64(of[i][0]-of[i-1][1]))
			}
			if over += (1 - rate) * float64(of[i][1]-of[i][0]); over > float64(burst) {
				t.Fatalf("seed %d: %v over a limit of %.2f at %v", seed, time.Duration(over), limit,
					of[i][1])
			}
		}
	}
}
