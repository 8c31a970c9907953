package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// newSystem returns the operating system.
func newSystem() system { return linux{} }

type linux struct{}

// listener returns the user who began to listen at the other end.
func listener(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("agent: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return 0, fmt.Errorf("agent: credentials: %w", errors.Join(err, credErr))
	}
	return cred.Uid, nil
}

// peer goes by what the kernel recorded when the peer connected.
func (linux) peer(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	pidfd := -1
	var credErr error
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED); credErr != nil {
			return
		}
		// Since Linux 6.5. It cannot be of a process that has the number of one that died, and
		// works across namespaces.
		if fd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			pidfd = fd
		}
	})
	if err != nil || credErr != nil {
		return peer{}, fmt.Errorf("peer credentials: %v %v", err, credErr)
	}
	if pidfd < 0 && cred.Pid > 0 {
		if pidfd, err = unix.PidfdOpen(int(cred.Pid), 0); err != nil {
			pidfd = -1
		}
	}
	return peer{uid: cred.Uid, pid: uint32(cred.Pid), process: watch(pidfd, uint32(cred.Pid))}, nil
}

func (linux) find(pid uint32, start uint64) (process, error) {
	if pid == 0 || pid > 1<<30 {
		return nil, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	pidfd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p := watch(pidfd, pid)
	if p.start() != start {
		p.forget()
		return nil, fmt.Errorf("process %d: another has its number: %w", pid, os.ErrProcessDone)
	}
	return p, nil
}

// linuxProcess is watched through a descriptor of it, or not at all if that could not be had: then
// only its socket tells of its death.
type linuxProcess struct {
	pid   uint32 // 0: outside of this pid namespace
	began uint64
	ident uint64
	file  *os.File // nil: not watched
	ended chan struct{}
}

func watch(pidfd int, pid uint32) *linuxProcess {
	p := &linuxProcess{pid: pid, ended: make(chan struct{})}
	if st, err := readStat(pid); err == nil {
		p.began = st.start
	}
	if pidfd < 0 {
		return p
	}
	p.ident = pidfsNumber(pidfd)
	unix.CloseOnExec(pidfd)
	// os.NewFile hands only non-blocking descriptors to the poller.
	_ = unix.SetNonblock(pidfd, true)
	p.file = os.NewFile(uintptr(pidfd), "pidfd")
	go func() {
		if awaitEnd(p.file) {
			close(p.ended)
		}
	}()
	return p
}

// pidfsNumber returns the number of a process's inode, which since Linux 6.9 is that of no other
// process; 0 on older systems, where all have the same, and where inodes have but 32 bits.
func pidfsNumber(pidfd int) uint64 {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if strconv.IntSize < 64 || unix.Fstatfs(pidfd, &fs) != nil || fs.Type != unix.PID_FS_MAGIC ||
		unix.Fstat(pidfd, &st) != nil {
		return 0
	}
	return st.Ino
}

// endLook is how often a process's descriptor is looked at that the poller does not take.
const endLook = wire.Beat

// awaitEnd waits until a descriptor of a process says that it has ended, or, returning false, until
// the file is closed.
func awaitEnd(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool { return readable(fd, 0) })
	// What the runtime's poller does not take, for want of watches or of support in the kernel, can
	// still be asked.
	for ended := false; err != nil; {
		if err := raw.Control(func(fd uintptr) { ended = readable(fd, endLook) }); err != nil {
			return false
		}
		if ended {
			return true
		}
	}
	return true
}

// readable reports whether a descriptor of a process says, within this time, that it has ended.
func readable(fd uintptr, within time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(within/time.Millisecond))
	return err == nil && n > 0
}

func (p *linuxProcess) start() uint64         { return p.began }
func (p *linuxProcess) id() uint64            { return p.ident }
func (p *linuxProcess) done() <-chan struct{} { return p.ended }

func (p *linuxProcess) watched() bool { return p.file != nil }

func (p *linuxProcess) forget() {
	if p.file != nil {
		_ = p.file.Close()
	}
}

// alive goes by the kernel's record, because a process that is being killed closes its files some
// time before its end is announced.
func (p *linuxProcess) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
	}
	if p.pid == 0 {
		return p.watched()
	}
	st, err := readStat(p.pid)
	return err == nil && st.start == p.began && !st.exiting
}

func (p *linuxProcess) stopped() bool {
	st, err := readStat(p.pid)
	return err == nil && st.start == p.began && st.stopped
}

func (p *linuxProcess) awaitDrain(s *wire.Slot, seq uint32, most time.Duration) bool {
	return s.WaitDrained(seq, most) == nil
}

// stat is a part of proc_pid_stat(5).
type stat struct {
	start            uint64
	exiting, stopped bool
}

// exitingFlag is PF_EXITING of the kernel's sched.h.
const exitingFlag = 0x4

func readStat(pid uint32) (stat, error) {
	if pid == 0 {
		return stat{}, syscall.ESRCH
	}
	text, err := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/stat")
	if err != nil {
		return stat{}, err
	}
	st, err := parseStat(text)
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return st, nil
}

var errStat = errors.New("unknown form of stat")

func parseStat(text []byte) (stat, error) {
	// The second field is a name in parentheses, which may hold anything.
	_, rest, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return stat{}, errStat
	}
	flags, errFlags := strconv.ParseUint(string(fields[6]), 10, 64)
	start, errStart := strconv.ParseUint(string(fields[19]), 10, 64)
	if errFlags != nil || errStart != nil {
		return stat{}, errStat
	}
	state := fields[0][0]
	return stat{
		start:   start,
		exiting: flags&exitingFlag != 0 || state == 'Z' || state == 'X',
		stopped: state == 'T' || state == 't',
	}, nil
}
