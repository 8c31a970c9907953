package main

import (
	"fmt"
	"strings"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/web"
	"github.com/weirgpu/weir/share"
)

// models are those of a server, as an agent has them beside its programs. It implements
// agent.Beside.
type models struct {
	*server.Server
	page *web.Page
}

// Devices implements agent.Beside.
func (m *models) Devices() []agent.DeviceSnapshot {
	st := m.Status()
	d := agent.DeviceSnapshot{Device: st.Device, Name: "models of weir up", Policy: st.Policy,
		MemoryBytes: int64(st.Memory), PromisedBytes: int64(st.Promised),
		Jobs: []agent.JobSnapshot{}}
	for i := range st.Jobs {
		d.Guarantee += st.Jobs[i].Share.Guarantee()
		d.Jobs = append(d.Jobs, modelSnapshot(&st.Jobs[i]))
	}
	return []agent.DeviceSnapshot{d}
}

// modelSnapshot is a version of a model as weir top shows it. All that it was charged it computed.
func modelSnapshot(u *lib.Usage) agent.JobSnapshot {
	j := agent.JobSnapshot{Name: u.Name, Class: u.Share.Class, Compute: u.Share.Compute,
		Limit: u.Share.Cap(), MemoryCapBytes: int64(u.Share.Memory),
		MemoryUsedBytes: uint64(u.Memory), DeviceSeconds: u.Used.Seconds(),
		UsedSeconds: u.Used.Seconds(), DeviceShare: u.Recent, State: "idle",
		Launches: uint64(u.Runs), Processes: []agent.ProcessSnapshot{}}
	switch {
	case u.Holds:
		j.State = "running"
	case u.Queue > 0:
		j.State = "waiting"
	}
	return j
}

// Set implements agent.Beside. A model may be named with a version, as weir top does; its share is
// that of the newest.
func (m *models) Set(to agent.ShareChange) (now share.Job, err error) {
	name, _, _ := strings.Cut(to.Job, "/")
	c, err := m.page.SetShare(name, webShare(to))
	if oip.KindOf(err) == oip.NotFound && err != nil {
		err = fmt.Errorf("%w: %w", agent.ErrNoJob, err)
	}
	if err != nil {
		return now, err
	}
	now = share.Job{Name: name, Share: share.Share{Memory: share.Bytes(*c.Now.Memory),
		Compute: *c.Now.Compute, Limit: *c.Now.Limit}}
	now.Class, err = share.ParseClass(*c.Now.Class)
	return now, err
}

// shared is a server whose policy is that of the programs beside it, too.
type shared struct {
	*server.Server
	programs *programs
}

// SetPolicy is [programs.SetPolicy].
func (s shared) SetPolicy(spec string) error { return s.programs.SetPolicy(spec) }
