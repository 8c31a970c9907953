package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// TestCreateClosesWhatIsSent has agents answer with what a controller cannot use, and a descriptor.
func TestCreateClosesWhatIsSent(t *testing.T) {
	dir := socketDir(t)
	if err := MakeRuntimeDir(dir); err != nil {
		t.Fatal(err)
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: SocketPath(dir), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	page, err := wire.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	answers := [][]byte{
		wire.NewRefused(wire.Refused{Code: wire.RefusedBusy}).Append(nil),
		wire.NewWelcome(wire.Welcome{}, 0).Append(nil),
		{1, 2, 3},
		{},
	}
	before := descriptors(t)
	for _, answer := range answers {
		for range 16 {
			c, err := Dial(dir)
			if err != nil {
				t.Fatal(err)
			}
			uc, err := ln.AcceptUnix()
			if err != nil {
				t.Fatal(err)
			}
			// The answer is there before the question.
			if err := writePacket(uc, answer, page.File()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Create(JobRequest{Job: share.Job{Name: "job"}}); err == nil {
				t.Errorf("%v was taken for a job", answer)
			}
			_ = c.Close()
			_ = uc.Close()
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

// TestForeignFolderIsNotDialed puts an agent that answers where the folder is not this user's own.
func TestForeignFolderIsNotDialed(t *testing.T) {
	dir := socketDir(t)
	startAgent(t, testConfig(dir, newPeople()))
	command := []string{"/bin/false"}
	refused := func(what, dir string) {
		t.Helper()
		for name, dial := range map[string]func() (*Client, error){
			"dial":    func() (*Client, error) { return Dial(dir) },
			"connect": func() (*Client, error) { return Connect(t.Context(), dir, command) },
		} {
			if c, err := dial(); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %s gave %v", what, name, err)
				if c != nil {
					_ = c.Close()
				}
			}
		}
	}
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	refused("a link that anybody could turn", link)
	if ownUID != 0 {
		t.Log("the rest needs another user's files: not done")
		return
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	refused("another user's folder", dir)
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := MakeRuntimeDir(other); err != nil {
		t.Fatal(err)
	}
	listenAs(t, other, 12345)
	refused("another user's socket", other)
}

// listenAs listens in a folder as another user, who may use it for that moment.
func listenAs(t *testing.T, dir string, uid int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: SocketPath(dir)}); err != nil {
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
		listened <- unix.Listen(fd, 5)
	}()
	if err := <-listened; err != nil {
		t.Fatal(err)
	}
}

// TestEndIsSeenWithoutThePoller watches what can be asked but the runtime's poller does not take:
// as the kernel lets epoll instances watch each other to a depth of five only (epoll(7)), the
// outermost of five can be in no other.
func TestEndIsSeenWithoutThePoller(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	inner := ends[0]
	for range 5 {
		outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, inner,
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP}); err != nil {
			t.Fatal(err)
		}
		if inner != ends[0] {
			defer unix.Close(inner)
		}
		inner = outer
	}
	defer unix.Close(ends[0])
	p := watch(inner, 0)
	if err := p.file.SetReadDeadline(time.Time{}); !errors.Is(err, os.ErrNoDeadline) {
		t.Skipf("the poller takes it: %v", err)
	}
	// The watch has begun before the end comes.
	time.Sleep(10 * time.Millisecond)
	_ = unix.Close(ends[1])
	select {
	case <-p.done():
	case <-time.After(20 * time.Second):
		t.Error("the end was not seen")
	}
	p.forget()
}

// TestNamesAreFreed ends jobs one by one, while one remains, and looks at what is kept of them.
func TestNamesAreFreed(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	small := share.Share{Memory: 1 << 20}
	controller(t, dir, share.Job{Name: "stays", Share: small})
	for i := range 20 {
		name := fmt.Sprintf("job %d", i)
		first, _ := controller(t, dir, share.Job{Name: name, Share: small})
		second, g := controller(t, dir, share.Job{Name: name, Share: small})
		if g.Name != name+"-2" {
			t.Errorf("the second %s is %s", name, g.Name)
		}
		// Refused for its memory, under a name that is taken.
		c, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(JobRequest{Fake: true, Job: share.Job{Name: g.Name,
			Share: share.Share{Memory: 1 << 40}}}); err == nil {
			t.Error("it has more memory than there is")
		}
		_, _, _ = c.Close(), first.Close(), second.Close()
	}
	eventually(t, "all but one are gone", func() bool { return jobNames(a) == "stays" })
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := len(a.devices[0].names); got != 1 {
		t.Errorf("%d names are kept of one job", got)
	}
}
