package scenario

import (
	"context"
	"time"
)

// solo runs each job by itself, under no limit, in several parts.
type solo struct {
	run   *run
	parts int
	next  int
	wall  time.Duration
	jobs  []JobResult // nil where nothing is to run alone
}

func newSolo(r *run, parts int) *solo {
	s := &solo{run: r, parts: parts}
	if r.o.Solo {
		s.jobs = make([]JobResult, len(r.jobs))
	}
	return s
}

// leastSolo is how long a part lasts at least, unless all of them together are to be shorter: a
// shorter one says more of the job's start than of its pace.
const leastSolo = 400 * time.Millisecond

// window is how long a part lasts.
func (s *solo) window() time.Duration {
	all := s.run.o.SoloDuration
	if all == 0 {
		all = s.run.s.Duration
	}
	return max(all/time.Duration(s.parts), min(all, leastSolo))
}

// part runs the next part of each job's time alone, or of its iterations.
func (s *solo) part(ctx context.Context) error {
	k, n := int64(s.next), int64(s.parts)
	s.next++
	if s.jobs == nil {
		return nil
	}
	for i, p := range s.run.jobs {
		count := p.spec.Iterations
		bounded := count*(k+1)/n - count*k/n
		if broken := s.jobs[i].Error != ""; broken || count > 0 && bounded == 0 {
			continue
		}
		s.run.o.Progress("alone: " + p.spec.Name)
		ph := &Phase{Device: s.run.s.Device, Mode: Solo}
		stage, err := s.run.newStage(ph, Solo, "")
		if err != nil {
			return err
		}
		stage.window, stage.bounded = s.window(), bounded
		if err := stage.perform(ctx, []int{i}); err != nil {
			return err
		}
		s.wall += ph.Wall
		s.jobs[i].join(&ph.Jobs[0])
	}
	return nil
}

// phase returns what all parts gave.
func (s *solo) phase() *Phase {
	return &Phase{Device: s.run.s.Device, Mode: Solo, Jobs: s.jobs, Wall: s.wall,
		WallS: s.wall.Seconds()}
}

// join adds another part of a job's time alone to those before.
func (j *JobResult) join(part *JobResult) {
	if j.Name == "" {
		*j = *part
		return
	}
	if part.Status != StatusDone {
		j.Status, j.Error = part.Status, part.Error
	}
	j.CompletionS = j.elapsed.Seconds() + part.CompletionS
	j.elapsed += part.elapsed
	j.done += part.done
	j.Iterations += part.Iterations
	j.OnTime += part.OnTime
	j.Late += part.Late
	j.Latencies = append(j.Latencies, part.Latencies...)
	j.Latency = latencyOf(j.Latencies)
	j.MemoryPeakBytes = max(j.MemoryPeakBytes, part.MemoryPeakBytes)
	j.DeviceSeconds += part.DeviceSeconds
	if j.elapsed > 0 {
		j.IterationsPerS = j.done / j.elapsed.Seconds()
		j.DeviceShare = j.DeviceSeconds / j.elapsed.Seconds()
	}
}
