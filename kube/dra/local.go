package dra

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/wire"
)

// Local is the agent of a runtime folder on this machine. It connects anew for each request, so
// that an agent that was started again is found.
type Local struct {
	Dir string // the runtime folder
}

// Keep implements [Agent].
func (l Local) Keep(_ context.Context, d Device, j Job) error {
	token, err := wire.ParseToken(j.Token)
	if err != nil {
		return err
	}
	c, err := agent.Dial(l.Dir)
	if err != nil {
		return err
	}
	defer c.Close()
	r := agent.JobRequest{Claim: j.ID, Token: token, Device: d.Ordinal, Fake: d.Fake}
	r.Name, r.Share = j.Name, j.Share
	g, err := c.Create(r)
	if err != nil {
		return err
	}
	_ = g.Page.Close()
	if g.Token != token {
		return fmt.Errorf("claim %s: the agent keeps it with another token: it is another "+
			"driver's; end that one", j.ID)
	}
	return nil
}

// Release implements [Agent].
func (l Local) Release(_ context.Context, id string) error {
	c, err := agent.Dial(l.Dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Release(id)
}

// Kept implements [Agent].
func (l Local) Kept(ctx context.Context) ([]string, error) {
	s, err := l.Snapshot(ctx)
	return KeptIn(&s), err
}

// KeptIn are the IDs of the jobs in a snapshot that are kept for claims.
func KeptIn(s *agent.Snapshot) (ids []string) {
	for i := range s.Devices {
		for k := range s.Devices[i].Jobs {
			if id := s.Devices[i].Jobs[k].Claim; id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Snapshot is what the agent tells of itself now.
func (l Local) Snapshot(ctx context.Context) (agent.Snapshot, error) {
	var s agent.Snapshot
	c, err := agent.Dial(l.Dir)
	if err != nil {
		return s, err
	}
	defer c.Close()
	err = c.Watch(ctx, 0, func(now agent.Snapshot) error { s = now; return nil })
	return s, err
}
