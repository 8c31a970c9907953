package broker

import (
	"context"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// traffic is the bound on what is moved between host and device for a job. The broker's lock guards
// what it holds, but turn.
type traffic struct {
	turn    chan struct{} // held by the one transfer that passes next
	most    share.Bytes   // a second; 0: no bound
	changed chan struct{} // closed when most becomes another, where somebody waits for that
}

// bound sets the bound, from now on.
func (t *traffic) bound(most share.Bytes) {
	if most == t.most {
		return
	}
	t.most = most
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Transfer waits until the policy's bound on the job's traffic ([share.Terms].Copy) lets n bytes
// pass between host and device, and counts them: over any time no more pass than the bound allows
// in it. Transfers of a job pass one after another. Where it returns an error they do not pass: the
// context's, or one of kind [core.ErrEnded].
func (j *Job) Transfer(ctx context.Context, n share.Bytes) error {
	select {
	case j.traffic.turn <- struct{}{}:
		defer func() { <-j.traffic.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	left := float64(n)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		most, changed, err := j.pass(n, left)
		if most == 0 {
			return err
		}
		began := j.b.Now()
		wait := time.NewTimer(time.Duration(min(left/float64(most)*1e9+1, float64(maxWait))))
		select {
		case <-wait.C:
		case <-changed:
		case <-ctx.Done():
		}
		wait.Stop()
		left -= float64(most) * (j.b.Now() - began).Seconds()
	}
}

// maxWait is how long a transfer waits at a time.
const maxWait = time.Hour

// pass counts n bytes, of which so many are left to wait for, if they may pass now. Otherwise it
// returns the bound, and what is closed when there is another.
func (j *Job) pass(n share.Bytes, left float64) (most share.Bytes, changed <-chan struct{},
	err error) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	t := &j.traffic
	if t.most == 0 || left <= 0 || j.ended {
		return 0, nil, j.step(core.Event{Kind: core.Copy, Bytes: n})
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.most, t.changed, nil
}
