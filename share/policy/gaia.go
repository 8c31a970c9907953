package policy

import (
	"flag"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file is GaiaGPU's limit on computing, which Tencent's gpu-manager enforces: Gu, Song, Li and
// Guan, "GaiaGPU: Sharing GPUs in container clouds", ISPA 2018, section III (vCUDA).
//
//	paper                        here
//	vgpu-core of a container     Share.Compute: the rate of its bucket of tokens
//	token bucket, feedback       bucket.tokens: use is taken off afterwards, so that a long kernel
//	                             leaves it below zero and the next waits the longer
//	elastic allocation           mode elastic: time that no job with tokens wants is lent, up to
//	                             Share.Cap, and taken back as soon as one comes to want it
//	hard limit                   mode hard: no more than the bucket gives, idle device or not
//
// Departures: lent time is not taken off the bucket, which the paper instead lets grow; a job
// without Compute has an empty bucket and lives by what is lent, by weight; in mode hard it has its
// cap. A job waits, with a guarantee, until its own bucket is full enough again, and while others
// have more in theirs: a slice and what each could save up, over its guarantee.

// The modes of [Gaia].
const (
	gaiaElastic = "elastic"
	gaiaHard    = "hard"
)

// GaiaParams are the parameters of [Gaia].
type GaiaParams struct {
	// Mode is "elastic" or "hard".
	Mode string
	// Slice is how long a job runs while others wait.
	Slice time.Duration
	// Burst is the device time that a bucket holds.
	Burst time.Duration
}

// DefaultGaia returns elastic sharing with slices of 10 ms and buckets of 4 ms.
func DefaultGaia() GaiaParams {
	return GaiaParams{Mode: gaiaElastic, Slice: 10 * time.Millisecond, Burst: 4 * time.Millisecond}
}

// Validate reports all faults together.
func (p GaiaParams) Validate() error {
	return validate("policy gaia", oneOf("mode", p.Mode, gaiaElastic, gaiaHard),
		positive("slice", p.Slice), positive("burst", p.Burst))
}

// Gaia holds each job to a token bucket, and lends what is left over. It ignores class.
type Gaia struct {
	params GaiaParams
	now    time.Duration
	lent   share.JobID // who runs on time that is lent
	least  float64     // lent to whom least was, for its weight
	set    [1]share.Terms
}

// bucket holds what a job may use. Times are in nanoseconds.
type bucket struct {
	tokens float64 // by Compute
	limit  float64 // by Cap
	lent   float64 // lent so far over the weight
	used   time.Duration
	wants  bool
}

func gaiaRow() Row {
	return Row{
		Name: "gaia", File: "gaia.go", Source: "GaiaGPU (ISPA 2018)",
		Summary: "a bucket of tokens for each job, and idle time lent up to its limit; class is " +
			"ignored",
		Honours: Honours{Guarantee: true, Limit: true, Conserving: true, Absolute: true,
			Burst: DefaultGaia().Burst,
			Wait:  Wait{Part: PartGuaranteed, Slice: 2 * DefaultGaia().Slice, Pays: true}},
		with: func() maker {
			p := DefaultGaia()
			return maker{
				func(f *flag.FlagSet) {
					f.StringVar(&p.Mode, "mode", p.Mode,
						"elastic: idle time is lent; hard: it is not")
					f.DurationVar(&p.Slice, "slice", p.Slice,
						"how long a job runs while others wait")
					f.DurationVar(&p.Burst, "burst", p.Burst, "device time that a bucket holds")
				},
				func() (share.Policy, error) { return NewGaia(p) },
			}
		},
	}
}

// NewGaia returns the policy, or the faults of its parameters.
func NewGaia(p GaiaParams) (*Gaia, error) { return &Gaia{params: p}, p.Validate() }

// Name returns "gaia".
func (p *Gaia) Name() string { return "gaia" }

// NewJobState returns a full bucket.
func (p *Gaia) NewJobState() any {
	return &bucket{tokens: float64(p.params.Burst), limit: float64(p.params.Burst), lent: p.least}
}

// Decide grants the free device to the job with the most tokens, else lends it, and takes back what
// is lent from whom others with tokens wait for.
func (p *Gaia) Decide(s *share.Snapshot) share.Decision {
	p.fill(s)
	var run, owner, guest *share.JobState
	wake := time.Duration(0)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		switch {
		case j.Phase == share.Running:
			run = j
		case j.Phase != share.Waiting:
		case p.empty(j):
			wake = sooner(wake, p.refilled(j, s.Now))
		case bucketOf(j).tokens >= p.enough() && p.rate(j) > 0:
			if owner == nil || bucketOf(j).tokens > bucketOf(owner).tokens {
				owner = j
			}
		case !p.lends():
			wake = sooner(wake, s.Now+p.after(p.enough()-bucketOf(j).tokens, p.rate(j)))
		case guest == nil || bucketOf(j).lent < bucketOf(guest).lent:
			guest = j
		}
	}
	d := share.Decision{Wake: wake}
	switch {
	case run != nil && owner != nil && run.ID == p.lent && !run.Revoking:
		p.set[0] = share.Terms{Job: run.ID}
		d.Set = p.set[:]
	case run != nil:
	case owner != nil:
		d.Set = p.grant(owner, s, bucketOf(owner).tokens, p.rate(owner))
		p.lend(s, 0)
	case guest != nil:
		d.Set = p.grant(guest, s, float64(p.params.Slice), 0)
		p.lend(s, guest.ID)
	}
	return d
}

// lend notes to whom the device is lent, 0 for nobody, once no other lingers on it at the expense
// of what that was given it for.
func (p *Gaia) lend(s *share.Snapshot, id share.JobID) {
	if lingers(s, s.All()) == nil {
		p.lent = id
	}
}

// fill adds to all buckets what has run in since the last call, and takes off what was used.
func (p *Gaia) fill(s *share.Snapshot) {
	dt, most := float64(s.Now-p.now), float64(p.params.Burst)
	p.now = s.Now
	p.least = -1
	for i := range s.Jobs {
		j := &s.Jobs[i]
		b := bucketOf(j)
		spent := float64(j.Used - b.used)
		b.used = j.Used
		if j.ID == p.lent {
			b.lent += spent / j.Share.Weight()
		} else {
			b.tokens -= spent
		}
		b.tokens += p.rate(j) * dt
		// A job that others kept from the device keeps what it could not use.
		if !b.wants || j.Share.Cap() < 1 {
			b.tokens = min(b.tokens, most)
		}
		b.limit = min(most, b.limit+j.Share.Cap()*dt-spent)
		b.wants = j.Wants()
		if j.Wants() && (p.least < 0 || b.lent < p.least) {
			p.least = b.lent
		}
	}
	p.least = max(0, p.least)
	for i := range s.Jobs {
		// Nobody saves up what it was not lent while it had no work.
		if b := bucketOf(&s.Jobs[i]); !b.wants {
			b.lent = max(b.lent, p.least)
		}
	}
}

func bucketOf(j *share.JobState) *bucket { return j.State.(*bucket) }

// rate is how fast the bucket fills, as a fraction of the device.
func (p *Gaia) rate(j *share.JobState) float64 {
	if !p.lends() && j.Share.Compute == 0 {
		return j.Share.Cap()
	}
	return j.Share.Guarantee()
}

// enough is what a bucket must hold for a hold to begin.
func (p *Gaia) enough() float64 { return float64(p.params.Burst) / 4 }

// lends reports whether idle time is lent.
func (p *Gaia) lends() bool { return p.params.Mode == gaiaElastic }

// empty reports whether the job is at its limit.
func (p *Gaia) empty(j *share.JobState) bool {
	return j.Share.Cap() < 1 && bucketOf(j).limit < p.enough()
}

func (p *Gaia) refilled(j *share.JobState, now time.Duration) time.Duration {
	return now + p.after(p.enough()-bucketOf(j).limit, j.Share.Cap())
}

// after is how long a bucket takes to get so much.
func (p *Gaia) after(missing, rate float64) time.Duration { return time.Duration(missing/rate) + 1 }

// grant lends the device until so much, which runs in again at a rate, is used up.
func (p *Gaia) grant(j *share.JobState, s *share.Snapshot, tokens, rate float64) []share.Terms {
	hold := min(float64(p.params.Slice), tokens/max(1e-9, 1-rate))
	if limit := j.Share.Cap(); limit < 1 {
		hold = min(hold, bucketOf(j).limit/(1-limit))
	}
	p.set[0] = share.Terms{Job: j.ID, Units: s.All(), Until: s.Now + max(1, time.Duration(hold))}
	return p.set[:]
}
