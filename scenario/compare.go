package scenario

import (
	"time"

	"github.com/weirgpu/weir/share"
)

// Comparison is what a phase is judged by, beside others with the same arrivals.
type Comparison struct {
	// sum over jobs of iterations_per_s / solo_iterations_per_s
	ThroughputVsSolo float64 `json:"throughput_vs_solo"`
	// the index of Jain, Chiu and Hawe (DEC-TR-301, 1984) of the jobs' speeds over alone: 1 where
	// all are slowed down alike, one over their number where one has everything
	Jain float64 `json:"jain"`
	// the end of the last job that has an iteration count, and the mean of all such ends from their
	// starts; 0 where one of them did not end
	MakespanS       float64 `json:"makespan_s"`
	MeanCompletionS float64 `json:"mean_completion_s"`
	// the fraction of the requests with a target that were answered within it; null without any
	TargetsMet *float64 `json:"targets_met"`
	// the worst p99 over p99 alone of the jobs that somebody waits for: of class latency or with a
	// target; 0 without any
	LatencyVsSolo float64 `json:"latency_p99_vs_solo"`
	// the mean speed over alone of the other jobs; 0 without any
	BatchVsSolo float64 `json:"batch_vs_solo"`
}

// compare fills in what a phase's jobs got beside what they get alone; solo is nil where that is
// not known.
func (p *Phase) compare(jobs []Job, solo []JobResult) {
	p.Comparison = Comparison{}
	p.completions(jobs)
	p.targets()
	if solo == nil {
		return
	}
	var sum, squares, batch float64
	others := 0
	for i := range p.Jobs {
		j, alone := &p.Jobs[i], &solo[i]
		j.SoloPerS, j.SoloLatency, j.SoloDeviceShare = alone.IterationsPerS, alone.Latency,
			alone.DeviceShare
		if j.IterationsPerS > 0 {
			j.Slowdown = j.SoloPerS / j.IterationsPerS
		}
		speed := 0.0
		if j.SoloPerS > 0 {
			speed = j.IterationsPerS / j.SoloPerS
		}
		sum += speed
		squares += speed * speed
		if jobs[i].waitedFor() {
			if alone.Latency.P99 > 0 {
				p.LatencyVsSolo = max(p.LatencyVsSolo, j.Latency.P99/alone.Latency.P99)
			}
		} else {
			batch += speed
			others++
		}
	}
	p.ThroughputVsSolo = sum
	if squares > 0 {
		p.Jain = sum * sum / (float64(len(p.Jobs)) * squares)
	}
	if others > 0 {
		p.BatchVsSolo = batch / float64(others)
	}
}

// waitedFor reports whether somebody waits for the job's requests.
func (j *Job) waitedFor() bool { return j.Class == share.Latency || j.Target > 0 }

// completions fills in when the jobs that have an end reached it.
func (p *Phase) completions(jobs []Job) {
	n, sum := 0, 0.0
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if jobs[i].Iterations == 0 {
			continue
		}
		if j.Iterations < jobs[i].Iterations {
			p.MakespanS = 0
			return
		}
		n++
		sum += j.CompletionS - jobs[i].Start.Seconds()
		p.MakespanS = max(p.MakespanS, j.CompletionS)
	}
	if n > 0 {
		p.MeanCompletionS = sum / float64(n)
	}
}

// targets fills in the fraction of requests that were answered in time.
func (p *Phase) targets() {
	var met, all int64
	for i := range p.Jobs {
		met += p.Jobs[i].OnTime
		all += p.Jobs[i].OnTime + p.Jobs[i].Late
	}
	if all > 0 {
		part := float64(met) / float64(all)
		p.TargetsMet = &part
	}
}

// punctual counts the requests that were answered within the target, and those that were not or
// have waited longer than that.
func (j *JobResult) punctual(target time.Duration, unanswered []time.Duration) {
	if target <= 0 {
		return
	}
	j.TargetMS = ms(target)
	for _, d := range j.Latencies {
		if d <= target {
			j.OnTime++
		} else {
			j.Late++
		}
	}
	for _, d := range unanswered {
		if d > target {
			j.Late++
		}
	}
}
