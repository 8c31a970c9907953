package shim

import (
	"bufio"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/share/wire"
)

// TestCancelledThread cancels a thread that waits at the closed gate: it ends when it has been let
// through, with no lock held and not counted among those who wait.
func TestCancelledThread(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.gate(false)
	r := onFake(t, w, t.TempDir(), "cancel")
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	r.start(t)
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer kill.Stop()
	said := func(line string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != line {
			t.Fatalf("got %q, want %q: %s", lines.Text(), line, r.err.String())
		}
	}
	w.expect(wire.KindWant)
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	said("cancelled")
	h, s := w.page.Header(), w.page.Slot(0)
	wanted := s.WantSeq.Load()
	h.Gate.Store(wire.PassGate(h.Gate.Load())) // closed as before: it says so again
	w.page.WakeGate()
	until(t, "it says again that it waits", func() bool { return s.WantSeq.Load() > wanted })
	w.gate(true)
	said("joined")
	if n := s.Waiting.Load(); n != 0 {
		t.Errorf("%d threads wait, and none is there", n)
	}
	w.drains(0)
	_ = in.Close()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}

// TestCancelledFirstCall cancels a thread that waits for the agent's answer to its first call: it
// ends when it has one, and keeps no other from asking.
func TestCancelledFirstCall(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r := b.command(nil, "cancelled")
	r.Env = append(r.Env, "WEIR_JOB=00112233445566778899aabbccddeeff", "WEIR_SOCKET="+path)
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	r.start(t)
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer kill.Stop()
	c, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 256)); n == 0 {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cancelled", "802 802 joined"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got %q, want %q: %s", lines.Text(), want, r.err.String())
		}
		_ = c.Close() // no answer
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}
