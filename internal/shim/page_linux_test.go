package shim

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// falsePage is memory with the contents of a page, of this size and with these seals.
func falsePage(t *testing.T, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("false", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "false")
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(max(size, wire.PageSize)); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, wire.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	page, err := wire.OverlayPage(mem)
	if err != nil {
		t.Fatal(err)
	}
	page.Format()
	page.SetTerms(wire.Terms{Name: "false", MemCap: testCap, MemTotal: testCap, InFlight: 1e6})
	page.Header().AgentBeatNS.Store(^uint64(0) >> 1)
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}

// welcomeWith stands in for an agent that answers one hello with a slot of this memory, and says at
// the end how many descriptors the program had from it. It returns what the program says.
func welcomeWith(t *testing.T, slot uint32, files ...*os.File) string {
	t.Helper()
	b := compiled(t)
	path := filepath.Join(t.TempDir(), "s")
	ln := listenAs(t, path, os.Getuid())
	defer ln.Close()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	go func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			welcome := wire.NewWelcome(wire.Welcome{Slot: slot, PageSize: wire.PageSize}, 0)
			_, _, _ = c.WriteMsgUnix(welcome.Append(nil), unix.UnixRights(fds...), nil)
			buf := make([]byte, 4096)
			for {
				if n, err := c.Read(buf); err != nil || n == 0 {
					break
				}
			}
			_ = c.Close()
		}
	}()
	r := b.command(nil, "info")
	r.Env = append(r.Env, "WEIR_JOB=00112233445566778899aabbccddeeff", "WEIR_SOCKET="+path)
	_ = r.Run()
	return r.out.String() + r.err.String()
}

// listenAs listens as a user.
func listenAs(t *testing.T, path string, uid int) *net.UnixListener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	listened := make(chan error)
	go func() {
		// The thread, which alone is the other user's, ends with its goroutine.
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if errno != 0 {
			listened <- errno
			return
		}
		listened <- unix.Listen(fd, 16)
	}()
	if err := <-listened; err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return ln.(*net.UnixListener)
}

// TestAgentOfAnotherUserIsNotUsed has another user's process listen where the agent should be.
func TestAgentOfAnotherUserIsNotUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs another user's process")
	}
	t.Parallel()
	b := compiled(t)
	path := filepath.Join(t.TempDir(), "s")
	ln := listenAs(t, path, 12345)
	defer ln.Close()
	r := b.command(nil, "info")
	r.Env = append(r.Env, "WEIR_JOB=00112233445566778899aabbccddeeff", "WEIR_SOCKET="+path)
	_ = r.Run()
	if said := r.out.String() + r.err.String(); !strings.Contains(said, "another user's") {
		t.Errorf("the program said %q", said)
	}
	// It has hung up without a word: a program that trusts this agent would have sent its token.
	c, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := c.Read(make([]byte, 256)); n > 0 {
		t.Errorf("the program sent %d bytes, %v", n, err)
	}
	// The environment can name a user to trust.
	for uid, trusted := range map[string]bool{"12345": true, "12346": false, "": false,
		"12345x": false} {
		r := b.command(nil, "info")
		r.Env = append(r.Env, "WEIR_JOB=00112233445566778899aabbccddeeff", "WEIR_SOCKET="+path,
			"WEIR_AGENT_UID="+uid)
		r.start(t)
		c, err := ln.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := c.Read(make([]byte, 256)); (n > 0) != trusted {
			t.Errorf("WEIR_AGENT_UID=%s: %d bytes sent", uid, n)
		}
		_ = c.Close()
		_ = r.Wait()
	}
}

// TestPageThatCanShrinkIsNotMapped welcomes a program with memory that an access could find gone.
func TestPageThatCanShrinkIsNotMapped(t *testing.T) {
	t.Parallel()
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	for name, c := range map[string]struct {
		size  int64
		seals int
		good  bool
	}{
		"a page":       {wire.PageSize, seals, true},
		"not sealed":   {wire.PageSize, 0, false},
		"can shrink":   {wire.PageSize, unix.F_SEAL_GROW | unix.F_SEAL_SEAL, false},
		"can grow":     {wire.PageSize, unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL, false},
		"one byte":     {1, seals, false},
		"a byte short": {wire.PageSize - 1, seals, false},
		"a byte long":  {wire.PageSize + 1, seals, false},
	} {
		said := welcomeWith(t, 0, falsePage(t, c.size, c.seals))
		if refused := strings.Contains(said, "is not one of this version"); refused == c.good {
			t.Errorf("%s: the program said %q", name, said)
		}
	}
}

// TestDescriptorsOfAnswersAreClosed has an agent come back that answers with what the program
// cannot use, and descriptors.
func TestDescriptorsOfAnswersAreClosed(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "pauses", "1000000")
	r.start(t)
	<-w.hellos
	w.stop()
	defer w.start()
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: w.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file := falsePage(t, 1, 0)
	answers := [][]byte{
		wire.NewRefused(wire.Refused{Code: wire.RefusedBusy}).Append(nil),
		wire.NewWelcome(wire.Welcome{PageSize: wire.PageSize}, 0).Append(nil),
		wire.NewWelcome(wire.Welcome{Slot: wire.NoSlot, PageSize: wire.PageSize}, 0).Append(nil),
		{0},
	}
	held := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := 0
	for i := range 8 {
		c, err := ln.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = held()
		}
		_, _, err = c.WriteMsgUnix(answers[i%len(answers)],
			unix.UnixRights(int(file.Fd()), int(file.Fd())), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 4096)
		for {
			if n, err := c.Read(buf); err != nil || n == 0 {
				break
			}
		}
		_ = c.Close()
	}
	if after := held(); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}
