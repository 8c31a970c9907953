package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

var (
	// ErrNotRunning: no agent answers at the socket.
	ErrNotRunning = errors.New("no agent is running")
	// ErrRefused: the agent refused; the error's text says why.
	ErrRefused = errors.New("refused by the agent")
	// ErrBusy: the agent is closing down or has too much to do; another try may succeed.
	ErrBusy = errors.New("agent is busy")
)

// Client is one connection to an agent: it makes one job, watches, or sets a share or the policy.
// It is for one goroutine at a time, but Close may be called from any.
type Client struct {
	uc   *net.UnixConn
	wait time.Duration // how long the agent may take to answer; 0: answerWait
}

// Dial connects to the agent of a runtime folder. It fails with [ErrNotRunning] if there is none,
// and with [ErrForeign] if the folder or the process that listens there is another user's.
func Dial(dir string) (*Client, error) {
	if err := CheckRuntimeDir(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("agent: %w: %w", ErrNotRunning, err)
	} else if err != nil {
		return nil, err
	}
	uc, err := net.DialUnix("unixpacket", nil,
		&net.UnixAddr{Name: SocketPath(dir), Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("agent: %w: %w", ErrNotRunning, err)
	}
	// Whoever could write to the folder before it was its owner's alone may have left a socket.
	uid, err := listener(uc)
	if err == nil && uid != ownUID {
		err = fmt.Errorf("agent: user %d listens at %s: %w: remove the socket", uid,
			SocketPath(dir), ErrForeign)
	}
	if err != nil {
		_ = uc.Close()
		return nil, err
	}
	return &Client{uc: uc}, nil
}

// Close closes the connection. The agent ends the job made on it as soon as no process is attached
// to it.
func (c *Client) Close() error { return c.uc.Close() }

// JobRequest is what a controller asks for.
type JobRequest struct {
	// Job is the name wanted, cut to 32 bytes, and the share. No memory means all that is not
	// promised to others.
	share.Job
	Device uint32 // ordinal
	Fake   bool   // of the fake driver
	// Gang names the gang of which the job is a rank; empty for none. With Ranks above 0, that is
	// how many it has, and Client.AwaitRanks says when all have come.
	Gang  string
	Ranks int
	// Oversubscribe: the programs' memory is to be such as can be moved to the host, with
	// [Client.Freeze].
	Oversubscribe bool
	// Claim is a name by which the job is kept, without its controller, until [Client.Release],
	// also after a restart of the agent. The same claim gets the same job again, with the share
	// that it had. Not for a rank of a gang. Empty for none.
	Claim string
	// Token is the one that a claim's job is to have if the agent knows nothing of the claim; zero:
	// another.
	Token wire.Token
	// what a process may have in flight, if less than the agent allows; 0: that
	InFlight time.Duration
	// Again is the job that an agent which is gone had given; nil for a new one.
	Again *JobGrant
}

// JobGrant is the job that an agent gave.
type JobGrant struct {
	Name        string
	Token       wire.Token
	Memory      share.Bytes // cap
	MemoryTotal share.Bytes // of the device
	// ThreadPercent is the active thread percentage with which processes are to begin as clients of
	// the MPS control daemon in the directory MPSPipe; 0: they need not be clients.
	ThreadPercent uint32
	MPSPipe       string
	// Service says that somebody else keeps the agent running.
	Service bool
	// Page is the descriptor of the job's page, to bring to another agent. It is the caller's.
	Page *os.File
}

// Create asks for a job and waits for the answer. An error is [ErrRefused], with the agent's text,
// or one of the connection. The job lives as long as the connection and the processes in it.
func (c *Client) Create(r JobRequest) (*JobGrant, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if r.Again != nil {
		r.Name, r.Memory = r.Again.Name, r.Again.Memory
	}
	name := wire.TrimName(r.Name)
	var flags uint32
	if r.Gang != "" {
		g := gangSpec{r.Gang, r.Ranks}
		if same, err := parseGang(g.String()); err != nil || same != g {
			return nil, fmt.Errorf("gang %q of %d ranks: %w: want a name of 1 to %d printable "+
				"bytes without a slash, and 0 to %d ranks", r.Gang, r.Ranks, share.ErrInvalid,
				wire.NameSize, maxRanks)
		}
		name, flags = name+"\x00"+g.String(), wire.FlagGang
	}
	if r.Claim != "" {
		if err := checkClaim(&r); err != nil {
			return nil, err
		}
		name, flags = name+"\x00"+r.Claim, wire.FlagKeep
	}
	m := wire.Create{
		Token:      r.Token,
		Memory:     uint64(r.Memory),
		ComputePPM: millionths(r.Compute),
		LimitPPM:   millionths(r.Limit),
		Class:      uint32(r.Class),
		Device:     r.Device,
		PID:        ownPID,
		Version:    wire.Version,
		InflightUS: uint32(r.InFlight / time.Microsecond),
		TextLen:    uint32(len(name)),
	}
	var page *os.File
	if r.Fake {
		flags |= wire.FlagFake
	}
	if r.Oversubscribe {
		flags |= wire.FlagMovable
	}
	if r.Again != nil {
		flags |= wire.FlagRejoin
		m.Token, page = r.Again.Token, r.Again.Page
	}
	if err := c.send(wire.NewCreate(m, flags), name, page); err != nil {
		return nil, err
	}
	answer, text, file, err := c.receiveSoon()
	if err != nil {
		return nil, err
	}
	g, ok := answer.(wire.Created)
	if !ok || file == nil {
		if file != nil {
			_ = file.Close()
		}
		return nil, fmt.Errorf("agent: answer of kind %d to create: %w", wire.KindOf(answer),
			wire.ErrMessage)
	}
	named := len(text) - int(g.PipeLen)
	return &JobGrant{
		Name:          text[:named],
		Token:         g.Token,
		Memory:        share.Bytes(g.Memory),
		MemoryTotal:   share.Bytes(g.MemoryTotal),
		ThreadPercent: g.ThreadPercent,
		MPSPipe:       text[named:],
		Service:       g.Serves(),
		Page:          file,
	}, nil
}

// AwaitRanks waits until all ranks of the gang of a job that was just created have come. The error
// is [ErrRefused], with the reason, if one of them was refused, the context's, or one of the
// connection.
func (c *Client) AwaitRanks(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	answer, _, file, err := c.receive()
	if file != nil {
		_ = file.Close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := answer.(wire.Done); err == nil && !ok {
		err = fmt.Errorf("agent: answer of kind %d: %w", wire.KindOf(answer), wire.ErrMessage)
	}
	return err
}

// ShareChange says what is to change of a job's share; what is nil stays as it is.
type ShareChange struct {
	Job     string
	Device  *uint32 // ordinal; nil: whichever has the job
	Memory  *share.Bytes
	Compute *float64
	Limit   *float64
	Class   *share.Class
}

// Apply makes the change to a share.
func (r *ShareChange) Apply(s *share.Share) {
	if r.Memory != nil {
		s.Memory = *r.Memory
	}
	if r.Compute != nil {
		s.Compute = *r.Compute
	}
	if r.Limit != nil {
		s.Limit = *r.Limit
	}
	if r.Class != nil {
		s.Class = *r.Class
	}
}

// Set gives a job another share while it runs, and returns what it has then. An error is a
// [share.ErrInvalid], [ErrRefused] with the agent's text, or one of the connection. The connection
// is of no further use.
func (c *Client) Set(r ShareChange) (share.Job, error) {
	m, got := wire.Set{Device: wire.NoDevice, Version: wire.Version}, share.Job{Name: r.Job}
	if r.Device != nil {
		m.Device = *r.Device
	}
	if r.Memory != nil {
		m.Fields, got.Memory = m.Fields|wire.FieldMemory, *r.Memory
	}
	if r.Compute != nil {
		m.Fields, got.Compute = m.Fields|wire.FieldCompute, *r.Compute
	}
	if r.Limit != nil {
		m.Fields, got.Limit = m.Fields|wire.FieldLimit, *r.Limit
	}
	if r.Class != nil {
		m.Fields, got.Class = m.Fields|wire.FieldClass, *r.Class
	}
	if err := got.Validate(); err != nil {
		return got, err
	}
	m.Memory, m.Class = uint64(got.Memory), uint32(got.Class)
	m.ComputePPM, m.LimitPPM = millionths(got.Compute), millionths(got.Limit)
	name := wire.TrimName(r.Job)
	m.TextLen = uint32(len(name))
	text, err := c.ask(wire.NewSet(m), name)
	if err != nil {
		return got, err
	}
	got = share.Job{} // what the answer leaves out is zero
	err = json.Unmarshal([]byte(text), &got)
	return got, err
}

// SetPolicy makes another policy decide on all devices from here on, named as for [Config]. The
// error is [ErrRefused] with the agent's text, or one of the connection. The connection is of no
// further use.
func (c *Client) SetPolicy(spec string) error {
	spec = spec[:min(len(spec), wire.MaxText)]
	_, err := c.ask(wire.NewPolicy(wire.Policy{Version: wire.Version, TextLen: uint32(len(spec))}),
		spec)
	return err
}

// ask sends a message that Done answers, and returns its text.
func (c *Client) ask(m wire.Message, text string) (string, error) {
	if err := c.send(m, text, nil); err != nil {
		return "", err
	}
	answer, text, file, err := c.receiveSoon()
	if err != nil {
		return "", err
	}
	if file != nil {
		_ = file.Close()
	}
	if _, ok := answer.(wire.Done); !ok {
		return "", fmt.Errorf("agent: answer of kind %d: %w", wire.KindOf(answer), wire.ErrMessage)
	}
	return text, nil
}

// WaitClosed returns when the agent is gone or has closed the connection.
func (c *Client) WaitClosed() {
	buf := make([]byte, wire.MaxPacket)
	for {
		_, file, err := readPacket(c.uc, buf)
		if file != nil {
			_ = file.Close()
		}
		if err != nil {
			return
		}
	}
}

// Watch calls see with a snapshot every so often, or once if the interval is 0, until the context
// is done, the agent is gone or see returns an error.
func (c *Client) Watch(ctx context.Context, interval time.Duration,
	see func(Snapshot) error) error {
	if err := c.send(wire.NewTop(wire.Top{IntervalMS: uint32(interval / time.Millisecond)}), "",
		nil); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for {
		s, err := c.snapshot()
		if err == nil {
			err = see(s)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || interval == 0 {
			return err
		}
	}
}

// maxSnapshot bounds what a client takes from an agent.
const maxSnapshot = 64 << 20

func (c *Client) snapshot() (Snapshot, error) {
	var s Snapshot
	var all []byte
	for {
		m, text, file, err := c.receive()
		if err != nil {
			return s, err
		}
		if file != nil {
			_ = file.Close()
		}
		part, ok := m.(wire.Snapshot)
		if all = append(all, text...); !ok || len(all) > maxSnapshot {
			return s, fmt.Errorf("agent: answer of kind %d to top: %w", wire.KindOf(m),
				wire.ErrMessage)
		}
		if !part.More() {
			break
		}
	}
	if err := json.Unmarshal(all, &s); err != nil {
		return s, fmt.Errorf("agent: snapshot: %w", err)
	}
	return s, nil
}

func (c *Client) send(m wire.Message, text string, file *os.File) error {
	if err := writePacket(c.uc, append(m.Append(nil), text...), file); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// answerWait is how long clients give an agent to answer.
const answerWait = 5 * time.Second

// receiveSoon is receive for an answer that must come soon: an agent that is stopped still has its
// socket open.
func (c *Client) receiveSoon() (wire.Message, string, *os.File, error) {
	wait := cmp.Or(c.wait, answerWait)
	_ = c.uc.SetReadDeadline(time.Now().Add(wait))
	defer c.uc.SetReadDeadline(time.Time{})
	m, text, file, err := c.receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf(
			"agent: no answer in %v: it may be stopped (kill -CONT) or hang (end it, programs go "+
				"on and weir exec starts another): %w",
			wait,
			err,
		)
	}
	return m, text, file, err
}

// receive reads one message. A refusal becomes an error. The file that came along is the caller's;
// with an error there is none.
func (c *Client) receive() (_ wire.Message, _ string, file *os.File, err error) {
	defer func() {
		if err != nil && file != nil {
			_ = file.Close()
			file = nil
		}
	}()
	buf := make([]byte, wire.MaxPacket)
	n, file, err := readPacket(c.uc, buf)
	if err != nil {
		return nil, "", file, fmt.Errorf("agent: %w", err)
	}
	m, text, err := wire.Decode(buf[:n])
	if err != nil {
		return nil, "", file, fmt.Errorf("agent: %w", err)
	}
	if r, ok := m.(wire.Refused); ok {
		return nil, "", file, &RefusedError{Code: r.Code, Text: string(text)}
	}
	return m, string(text), file, nil
}

// RefusedError is an agent's refusal. It is an [ErrRefused].
type RefusedError struct {
	Code wire.Code
	Text string // for people
}

// Error returns the agent's text.
func (e *RefusedError) Error() string { return e.Text }

// Is reports whether target is [ErrRefused] or, if another try may succeed, [ErrBusy].
func (e *RefusedError) Is(target error) bool {
	return target == ErrRefused || target == ErrBusy && e.Code == wire.RefusedBusy
}
