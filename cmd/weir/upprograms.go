package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/server/web"
)

// programs are those of an agent on this machine, as a page shows them beside the models.
type programs struct {
	last atomic.Pointer[agent.Snapshot] // nil without an agent
	end  context.CancelFunc
	done chan struct{}
}

// How often an agent is asked, and looked for.
const (
	askAgent  = 500 * time.Millisecond
	seekAgent = 5 * time.Second
)

// watchPrograms follows the agent until close. None is started: programs bring their own.
func watchPrograms(dial func() (*agent.Client, error)) *programs {
	ctx, cancel := context.WithCancel(context.Background())
	p := &programs{end: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			if c, err := dial(); err == nil {
				_ = c.Watch(ctx, askAgent, func(s agent.Snapshot) error {
					p.last.Store(&s)
					return nil
				})
				_ = c.Close()
				p.last.Store(nil)
			}
			select {
			case <-ctx.Done():
			case <-time.After(seekAgent):
			}
		}
	}()
	return p
}

func (p *programs) close() {
	p.end()
	<-p.done
}

// rows are the devices and programs of the agent, as they were when it was last asked.
func (p *programs) rows() (devices []web.Device, list []web.Program) {
	s := p.last.Load()
	if s == nil {
		return nil, nil
	}
	for _, d := range s.Devices {
		row := web.Device{Name: d.Device, Label: d.Name, Policy: s.Policy, Memory: d.MemoryBytes,
			Promised: d.PromisedBytes}
		for _, j := range d.Jobs {
			row.Held += int64(j.MemoryUsedBytes)
			list = append(list, web.Program{Name: j.Name, Device: d.Device,
				Class: j.Class.String(), State: j.State, Compute: j.Compute, Limit: j.Limit,
				Cap: j.MemoryCapBytes, Held: int64(j.MemoryUsedBytes), Used: j.DeviceShare})
		}
		devices = append(devices, row)
	}
	return devices, list
}
