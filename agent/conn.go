package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// conn is a peer: a program's process, a controller, a viewer or who sets a share or the policy, as
// its first message says.
type conn struct {
	a    *Agent
	uc   *net.UnixConn
	door bool // it came to the door, by which programs join and nothing else is asked
	peer peer
	once sync.Once
}

// errRefused carries a code and a text to the peer.
type errRefused struct {
	code wire.Code
	err  error
}

// Error implements error.
func (e *errRefused) Error() string { return e.err.Error() }

// Unwrap gives the cause to errors.Is.
func (e *errRefused) Unwrap() error { return e.err }

func refusal(code wire.Code, format string, args ...any) error {
	return &errRefused{code, fmt.Errorf(format, args...)}
}

func (c *conn) close() { c.once.Do(func() { _ = c.uc.Close() }) }

// serve speaks with a peer until one side closes the socket.
func (c *conn) serve() {
	defer c.close()
	var err error
	if c.peer, err = c.a.cfg.system.peer(c.uc); err != nil {
		c.a.log.Warn("peer refused", "error", err)
		return
	}
	owned := false // by a slot, which forgets the process itself
	defer func() {
		if !owned {
			c.peer.process.forget()
		}
	}()
	_ = c.uc.SetReadDeadline(time.Now().Add(helloWait))
	m, text, file, err := c.read(make([]byte, wire.MaxPacket))
	if err == nil {
		_ = c.uc.SetReadDeadline(time.Time{})
		owned, err = c.begin(m, text, file)
	}
	if file != nil {
		_ = file.Close()
	}
	if r := (*errRefused)(nil); errors.As(err, &r) {
		level := slog.LevelInfo
		if h, ok := m.(wire.Hello); ok && h.Rejoins() && r.code == wire.RefusedUnknownJob {
			level = slog.LevelDebug // it asks several times a second; orphan told once
		}
		c.a.log.Log(c.a.ctx, level, "peer refused", "pid", c.peer.pid, "reason", r.code.String(),
			"error", r.err)
		c.refuse(r.code, r.Error())
	} else if errors.Is(err, wire.ErrMessage) {
		c.a.log.Warn("peer speaks nonsense", "pid", c.peer.pid, "error", err)
		c.refuse(wire.RefusedProtocol, err.Error())
	}
}

// begin does what the first message asks for, and returns when the peer is gone. The file stays the
// caller's. It reports whether the peer's process is a slot's.
func (c *conn) begin(m wire.Message, text []byte, file *os.File) (bool, error) {
	_, joins := m.(wire.Hello)
	if c.door && !joins {
		return false, refusal(wire.RefusedCredentials, "this socket lets programs join jobs, and "+
			"does nothing else: ask at %s", SocketPath(c.a.cfg.Dir))
	}
	if !c.door && c.peer.uid != ownUID && !(joins && c.a.allows(c.peer.uid)) {
		return false, refusal(wire.RefusedCredentials, "this agent serves user %d, not %d: start "+
			"one of your own, or this one with --allow-uid %d, which lets programs join jobs",
			ownUID, c.peer.uid, c.peer.uid)
	}
	switch m := m.(type) {
	case wire.Hello:
		if m.Version != wire.Version {
			return false, refusal(wire.RefusedVersion,
				"version %d, this agent speaks %d: start the program with this weir", m.Version,
				wire.Version)
		}
		return c.serveProcess(m, file)
	case wire.Create:
		if m.Version != wire.Version {
			return false, otherVersion(m.Version)
		}
		return false, c.serveController(m, string(text), file)
	case wire.Top:
		return false, c.serveViewer(m)
	case wire.Set:
		return false, c.serveSet(m, string(text))
	case wire.Policy:
		return false, c.servePolicy(m, string(text))
	case wire.Freeze:
		return false, c.serveFreeze(m, string(text))
	case wire.Release:
		return false, c.serveRelease(m, string(text))
	}
	return false, refusal(wire.RefusedProtocol, "message of kind %d before hello", wire.KindOf(m))
}

// read reads one message. The file that came along is the caller's.
func (c *conn) read(buf []byte) (wire.Message, []byte, *os.File, error) {
	n, file, err := readPacket(c.uc, buf)
	if err != nil {
		return nil, nil, file, err
	}
	m, text, err := wire.Decode(buf[:n])
	return m, text, file, err
}

// write sends one message with text and a descriptor, if there are any.
func (c *conn) write(m wire.Message, text string, file *os.File) error {
	_ = c.uc.SetWriteDeadline(time.Now().Add(writeWait))
	return writePacket(c.uc, append(m.Append(make([]byte, 0, wire.MessageSize+len(text))), text...),
		file)
}

func (c *conn) refuse(code wire.Code, text string) {
	text = text[:min(len(text), wire.MaxText)]
	_ = c.write(wire.NewRefused(wire.Refused{Code: code, TextLen: uint32(len(text))}), text, nil)
}

// serveProcess gives a process a slot in its job and hears it until its socket is closed.
func (c *conn) serveProcess(m wire.Hello, file *os.File) (bool, error) {
	j, err := c.a.jobFor(m, c, file)
	if err != nil {
		return false, err
	}
	mem, owned, err := j.attach(c, m)
	if err != nil {
		return false, err
	}
	welcome := wire.NewWelcome(
		wire.Welcome{
			Slot:       mem.slot,
			Device:     j.dev.Ordinal,
			PageSize:   wire.PageSize,
			Generation: c.a.generation,
		},
		wire.FlagMeasures,
	)
	if err = c.write(welcome, "", j.page.File()); err == nil {
		c.a.log.Debug("process attached", "job", j, "pid", c.peer.pid, "slot", mem.slot)
		err = c.hear(j, mem)
	}
	j.detach(mem, c)
	return owned, err
}

// hear takes a process's hints.
func (c *conn) hear(j *job, mem *member) error {
	buf := make([]byte, wire.MessageSize+1)
	for {
		m, _, file, err := c.read(buf)
		if file != nil {
			_ = file.Close()
		}
		if err != nil {
			return err
		}
		if n, ok := m.(wire.Note); ok && n.Slot == mem.slot {
			j.unknown(mem, n.Name())
			continue
		}
		if j.heard(mem, m) {
			continue
		}
		s, ok := m.(wire.Signal)
		if !ok || s.Slot != mem.slot {
			return refusal(wire.RefusedProtocol, "slot %d: message of kind %d out of place",
				mem.slot, wire.KindOf(m))
		}
		switch s.Kind {
		case wire.KindWant:
			j.overdue(s.Gate)
		case wire.KindIdle:
			j.noteIdle(mem)
		case wire.KindMeasure:
			j.question(mem, s.Gate)
			continue
		case wire.KindBye:
			mem.bye.Store(true)
			return nil
		}
		kick(j.kicked)
	}
}

// serveController makes a job and keeps it until the socket is closed.
func (c *conn) serveController(m wire.Create, name string, file *os.File) error {
	j, err := c.a.create(m, name, c, file)
	if err != nil {
		return err
	}
	var flags uint32
	if c.a.cfg.IdleExit == 0 {
		flags = wire.FlagService
	}
	threads, pipe := c.a.start(j)
	created := wire.NewCreated(wire.Created{
		Token:       j.terms.Token,
		Memory:      uint64(j.bj.Spec().Memory),
		MemoryTotal: uint64(j.dev.Memory),
		PageSize:    wire.PageSize,
		Device:      j.dev.Ordinal,
		Generation:  c.a.generation,
		TextLen:     uint32(len(j.spec.Name) + len(pipe)),
		PipeLen:     uint32(len(pipe)),

		ThreadPercent: threads,
	}, flags)
	if err = c.write(created, j.spec.Name+pipe, j.page.File()); err == nil {
		ctx, cancel := context.WithCancel(c.a.ctx)
		told := make(chan struct{})
		go func() {
			defer close(told)
			if j.gang != nil && j.gang.ranks > 0 && !m.Rejoins() {
				c.awaitRanks(ctx, j.gang)
			}
		}()
		err = c.untilClosed()
		cancel()
		<-told
	}
	j.release(c)
	return err
}

// untilClosed waits for a peer that has nothing more to say.
func (c *conn) untilClosed() error {
	_, _, file, err := c.read(make([]byte, wire.MessageSize+1))
	if file != nil {
		_ = file.Close()
	}
	if err == nil {
		return refusal(wire.RefusedProtocol, "message out of place")
	}
	return err
}
