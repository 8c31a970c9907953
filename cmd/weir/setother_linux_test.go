package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSetAsksNobodyElse: in a folder of another user's nobody is asked, who could answer in the
// place of a run; and a run that has no time to listen just then keeps its socket.
func TestSetAsksNobodyElse(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("WEIR_RUNTIME_DIR", dir)
	path := filepath.Join(dir, "share-1.sock")
	sockets := func() (fd int) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	at := &unix.SockaddrUnix{Name: path}
	listener := sockets()
	if err := unix.Bind(listener, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(listener, 0); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; { // until no more may wait
		err = unix.Connect(sockets(), at)
	}
	set := func(says string) {
		t.Helper()
		got := weir(t, "set", "a", "--compute", "0.5")
		if got.code != 1 || !strings.Contains(got.talk, says) {
			t.Errorf("exit code %d, %s; want %q", got.code, got.talk, says)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error("the socket of a run that listens is gone")
		}
	}
	set("no agent is running")
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := os.Chown(dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	set("belongs to user 1")
}
