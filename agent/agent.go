package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share/broker"
)

// Agent shares the devices of one machine between the process jobs of one user.
type Agent struct {
	cfg        Config
	log        *slog.Logger
	ln         *net.UnixListener
	door       *net.UnixListener // at which programs of any user join; nil for none
	lock       *os.File
	devices    []*device
	generation uint32
	ctx        context.Context
	stop       context.CancelFunc
	work       sync.WaitGroup // of the goroutines of peers, jobs and the beat
	leases     broker.Gangs   // that are held together
	walls      *walls

	// toHost has a value while a job's memory is being moved to the host: one at a time, so that
	// what is left of that is known.
	toHost chan struct{}

	mu      sync.Mutex
	jobs    map[wire.Token]*job
	orphans map[wire.Token]struct{} // jobs of which it was told that nobody vouches for them
	conns   map[*conn]struct{}
	gangs   map[string]*gang // by name; none without a job
	closing bool
	policy  string    // as it was last set
	used    time.Time // when there was last a job or a peer
}

// Start takes the runtime folder and begins to serve. It fails with [ErrRunning] if another agent
// has the folder. The agent needs [Agent.Close]. From then on all threads of the process ask the
// kernel for short slices, so that programs wait for none of them on a busy machine.
func Start(c Config) (*Agent, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	if c.system == nil {
		c.system = newSystem()
	}
	a := &Agent{
		cfg:        c,
		policy:     c.Policy,
		log:        c.Log,
		generation: rand.Uint32() | 1,
		jobs:       map[wire.Token]*job{},
		orphans:    map[wire.Token]struct{}{},
		conns:      map[*conn]struct{}{},
		gangs:      map[string]*gang{},
		toHost:     make(chan struct{}, 1),
		used:       time.Now(),
	}
	mps, can := c.findMPS()
	for _, d := range c.Devices {
		dev, err := newDevice(d, &c, mps, can)
		if err != nil {
			a.closeDevices()
			return nil, fmt.Errorf("agent: %w", err)
		}
		dev.gaugeWith(&c)
		a.devices = append(a.devices, dev)
	}
	var err error
	if a.ln, a.lock, err = listen(c.Dir); err != nil {
		a.closeDevices()
		return nil, err
	}
	if a.door, err = openDoor(&c); err != nil {
		_ = a.ln.Close()
		_ = a.lock.Close()
		a.closeDevices()
		return nil, err
	}
	prompt()
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.walls = newWalls(a)
	a.restoreClaims()
	sweepRecords(c.Dir)
	a.work.Add(2)
	go a.accept(a.ln, false)
	go a.beat()
	if a.door != nil {
		a.work.Add(1)
		go a.accept(a.door, true)
	}
	if c.Holds != nil {
		a.work.Add(len(a.devices))
		for _, d := range a.devices {
			go a.reconcile(d)
		}
	}
	level := slog.LevelInfo
	if len(a.devices) == 0 {
		level = slog.LevelDebug // what it is there for says that it is
	}
	a.log.Log(a.ctx, level, "agent started", "socket", SocketPath(c.Dir), "policy", c.Policy,
		"devices", len(a.devices))
	return a, nil
}

// Done is closed when the agent has been told to stop or has been without work for so long that it
// did so by itself.
func (a *Agent) Done() <-chan struct{} { return a.ctx.Done() }

// Close ends the agent. Programs keep running: their gates count as open when the beat has stopped,
// their memory caps still hold, and they rejoin the next agent. Closing again does nothing.
func (a *Agent) Close() error {
	a.mu.Lock()
	again := a.closing
	a.closing = true
	conns := make([]*conn, 0, len(a.conns))
	for c := range a.conns {
		conns = append(conns, c)
	}
	a.mu.Unlock()
	if again {
		a.work.Wait()
		return nil
	}
	// The listener goes first, and with it the socket, so that whoever finds the agent gone can
	// start the next one.
	err := a.ln.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // the agent was unused
	}
	if a.door != nil {
		_ = a.door.Close()
	}
	a.stop()
	for _, c := range conns {
		c.close()
	}
	a.work.Wait()
	a.walls.close()
	a.closeDevices()
	a.log.Info("agent stopped")
	return errors.Join(err, a.lock.Close())
}

func (a *Agent) closeDevices() {
	for _, d := range a.devices {
		d.broker.Close()
	}
}

// accept serves who comes to a socket: only programs that join jobs if it is the door.
func (a *Agent) accept(ln *net.UnixListener, door bool) {
	defer a.work.Done()
	for {
		uc, err := ln.AcceptUnix()
		if err != nil {
			if a.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			a.log.Warn("accept failed", "error", err)
			// Out of descriptors, most likely: some will be given back.
			select {
			case <-time.After(wire.Beat):
				continue
			case <-a.ctx.Done():
				return
			}
		}
		a.admit(&conn{a: a, uc: uc, door: door})
	}
}

// admit begins to serve a peer, unless the agent is closing or has too many.
func (a *Agent) admit(c *conn) {
	a.mu.Lock()
	full := a.closing || len(a.conns) >= maxConns
	if !full {
		a.conns[c] = struct{}{}
		a.used = time.Now()
		a.work.Add(1)
	}
	a.mu.Unlock()
	if full {
		c.refuse(wire.RefusedBusy, "the agent is closing down or has too many peers: try again")
		c.close()
		return
	}
	go func() {
		defer a.work.Done()
		c.serve()
		a.mu.Lock()
		delete(a.conns, c)
		a.used = time.Now()
		a.mu.Unlock()
	}()
}

// beat tells programs that the agent lives, samples what jobs use, looks after processes that are
// away, and ends an agent that nobody uses.
func (a *Agent) beat() {
	defer a.work.Done()
	t := time.NewTicker(wire.Beat)
	defer t.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-t.C:
		}
		now := uint64(wire.Monotonic())
		a.mu.Lock()
		jobs := make([]*job, 0, len(a.jobs))
		for _, j := range a.jobs {
			jobs = append(jobs, j)
		}
		unused := len(jobs) == 0 && len(a.conns) == 0 && a.cfg.IdleExit > 0 &&
			time.Since(a.used) >= a.cfg.IdleExit
		if unused {
			a.closing = true
		}
		a.mu.Unlock()
		for _, j := range jobs {
			j.beat(now)
		}
		if unused {
			a.log.Info("agent unused", "for", a.cfg.IdleExit)
			a.closeUnused()
			return
		}
	}
}

// closeUnused stops an agent that serves nobody. The rest is Close's, which its owner calls when
// Done says so.
func (a *Agent) closeUnused() {
	_ = a.ln.Close()
	a.mu.Lock()
	a.closing = false // for Close
	a.mu.Unlock()
	a.stop()
}

// allows reports whether another user's processes may join jobs.
func (a *Agent) allows(uid uint32) bool { return slices.Contains(a.cfg.AllowUIDs, uid) }

func (a *Agent) device(ordinal uint32) *device {
	for _, d := range a.devices {
		if d.Ordinal == ordinal {
			return d
		}
	}
	return nil
}

// LogValue shows a job in logs by its name and the beginning of its token.
func (j *job) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", j.spec.Name),
		slog.String("token", j.terms.Token.String()[:8]))
}
