package dist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ErrPeer is the kind of error about a process that cannot be trained with, or not any longer.
var ErrPeer = errors.New("training in several processes")

// Team is one process among those that train together. The leader, rank 0, says what is done next;
// it alone evaluates and keeps checkpoints.
type Team struct {
	Rank, Ranks int

	links   *Links
	control []*line // by rank; a worker has that of the leader alone
	in, out net.Conn
	memory  *os.File
	mem     []byte
	area    int64 // of each process in the memory
	pids    []int

	mu    sync.Mutex
	cause error // of the first failure
	ended chan struct{}
	once  sync.Once
}

// line is a connection to one process, on which JSON objects go.
type line struct {
	conn net.Conn
	dec  *json.Decoder
	enc  *json.Encoder
}

// NewTeam takes the connections of a process over. The caller closes the team.
func NewTeam(l *Links) (*Team, error) {
	t, err := newTeam(l)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	return t, nil
}

func newTeam(l *Links) (t *Team, err error) {
	t = &Team{Rank: l.Rank, Ranks: l.Ranks, links: l, memory: l.memory, pids: make([]int, l.Ranks),
		control: make([]*line, l.Ranks), ended: make(chan struct{})}
	for r, f := range l.control {
		if f == nil {
			continue
		}
		c, e := connection(f)
		if err = errors.Join(err, e); e == nil {
			t.control[r] = &line{c, json.NewDecoder(c), json.NewEncoder(c)}
		}
	}
	var e1, e2 error
	t.in, e1 = connection(l.in)
	t.out, e2 = connection(l.out)
	if err = errors.Join(err, e1, e2); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// header is what lies before the areas of the processes: a line of a cache each, for its sign of
// life.
const header = 1 << 12

// page is what areas are whole numbers of.
const page = 1 << 12

// Map maps the memory of all processes, so many bytes of each, all zeros, and returns that of each.
// Workers call it when the leader has, which their answer from it says.
func (t *Team) Map(bytes int64) (areas [][]byte, err error) {
	t.area = (bytes + page - 1) / page * page
	all := header + t.area*int64(t.Ranks)
	if t.Rank == 0 {
		if err := t.memory.Truncate(all); err != nil {
			return nil, fmt.Errorf("%w: memory of %d bytes: %w", ErrPeer, all, err)
		}
	}
	if t.Ranks*lineBytes > header {
		return nil, fmt.Errorf("%w: %d processes: want at most %d", ErrPeer, t.Ranks,
			header/lineBytes)
	}
	if t.mem, err = mapped(t.memory, all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	for r := range t.Ranks {
		at := header + int64(r)*t.area
		areas = append(areas, t.mem[at:at+bytes:at+bytes])
	}
	return areas, nil
}

const lineBytes = 64

// beat is the sign of life of a process.
func (t *Team) beat(rank int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&t.mem[rank*lineBytes]))
}

// Watch gives a sign of life at each tick, and ends the team when another process has given none
// for so many ticks. It returns when the team ends.
func (t *Team) Watch(tick <-chan time.Time, silent int) {
	last, since := make([]uint64, t.Ranks), make([]int, t.Ranks)
	for {
		select {
		case <-t.ended:
			return
		case <-tick:
		}
		if r := t.watch(last, since, silent); r >= 0 {
			t.fail(fmt.Errorf("%w: %s gives no sign of life: is it stopped, or the machine out of "+
				"memory?", ErrPeer, t.name(r)))
			return
		}
	}
}

// watch looks at all processes once, and returns the first that is silent, below 0 where none is.
func (t *Team) watch(last []uint64, since []int, silent int) int {
	t.mu.Lock() // memory stays mapped meanwhile
	defer t.mu.Unlock()
	if t.mem == nil {
		return -1
	}
	t.beat(t.Rank).Add(1)
	for r := range t.Ranks {
		now := t.beat(r).Load()
		if since[r]++; now != last[r] {
			last[r], since[r] = now, 0
		}
		if since[r] >= silent {
			return r
		}
	}
	return -1
}

// name is how a process is called.
func (t *Team) name(rank int) string {
	who := "the leader"
	if rank > 0 {
		who = fmt.Sprint("worker ", rank)
	}
	if pid := t.pids[rank]; pid > 0 {
		return fmt.Sprintf("%s (process %d)", who, pid)
	}
	return who
}

// fail ends the team, for the first cause, which it returns.
func (t *Team) fail(err error) error {
	t.mu.Lock()
	if t.cause == nil {
		t.cause = err
	}
	err = t.cause
	t.mu.Unlock()
	t.hangUp()
	return err
}

// Failed is the cause for which the team has ended, nil where it has not failed.
func (t *Team) Failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// HangUp ends the team for all its processes; the memory stays until Close.
func (t *Team) HangUp() { t.hangUp() }

// hangUp closes all connections, which ends who waits for any.
func (t *Team) hangUp() {
	t.once.Do(func() {
		close(t.ended)
		conns := []net.Conn{t.in, t.out}
		for _, l := range t.control {
			if l != nil {
				conns = append(conns, l.conn)
			}
		}
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // what was not sent is of no use any more
			}
		}
	})
}

// Close ends the team for this process, and gives the memory back: nobody may read or write it any
// more. A second call does nothing.
func (t *Team) Close() {
	t.hangUp()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mem != nil {
		unmap(t.mem)
		t.mem = nil
	}
	if t.memory != nil {
		_ = t.memory.Close()
		t.memory = nil
	}
}

// pass hands a token to the right neighbour.
func (t *Team) pass(k token) error {
	var b [tokenBytes]byte
	binary.LittleEndian.PutUint64(b[:], uint64(k.update))
	binary.LittleEndian.PutUint32(b[8:], uint32(k.bucket))
	binary.LittleEndian.PutUint32(b[12:], uint32(k.step))
	if _, err := t.out.Write(b[:]); err != nil {
		return t.fail(fmt.Errorf("%w: %s is gone: %w", ErrPeer, t.name((t.Rank+1)%t.Ranks), err))
	}
	return nil
}

const tokenBytes = 16

// await waits for a token from the left neighbour.
func (t *Team) await(want token) error {
	var b [tokenBytes]byte
	left := (t.Rank + t.Ranks - 1) % t.Ranks
	if _, err := io.ReadFull(t.in, b[:]); err != nil {
		return t.fail(fmt.Errorf("%w: %s is gone: %w", ErrPeer, t.name(left), err))
	}
	got := token{int64(binary.LittleEndian.Uint64(b[:])), int(binary.LittleEndian.Uint32(b[8:])),
		int(binary.LittleEndian.Uint32(b[12:]))}
	if got != want {
		return t.fail(fmt.Errorf("%w: %s is at step %d of bucket %d of update %d, this process at "+
			"%d of %d of %d", ErrPeer, t.name(left), got.step, got.bucket, got.update, want.step,
			want.bucket, want.update))
	}
	return nil
}
