package shim

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
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

// TestCancelledWithinALaunch cancels a thread in the driver, where that has a cancellation point,
// at a first launch and at one of many: it is not launching for ever after, so that the process
// says that it has drained.
func TestCancelledWithinALaunch(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	for _, before := range []string{"0", "20"} {
		w := newWarden(t, testCap, 2*time.Millisecond)
		w.gate(true)
		r := b.command(w, "within", before)
		in, err := r.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Stdout = nil
		out, err := r.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.start(t)
		kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
		defer kill.Stop()
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "joined" {
			t.Fatalf("got %q: %s", lines.Text(), r.err.String())
		}
		w.drains(0)
		_ = in.Close()
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
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

// TestNoAnswer has an agent not answer, end the connection, and answer in another way: the program
// is told which, and what to do.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	for _, c := range []struct {
		token, says string
		answer      func(c *net.UnixConn)
	}{
		{"00112233445566778899aabbccddeeff", "no answer in 2 s: it is stopped or hangs; let it " +
			"go on (kill -CONT) or end it, and start the program again", nil},
		{"00112233445566778899aabbccddeeff", "ended the connection without an answer",
			func(c *net.UnixConn) { _ = c.Close() }},
		{"00112233445566778899aabbccddeeff", "no answer that this version of weir knows",
			func(c *net.UnixConn) { _, _ = c.Write(make([]byte, wire.MessageSize)) }},
		{"x", "WEIR_JOB is not what weir exec sets", nil},
	} {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		r := b.command(nil, "info")
		r.Env = append(r.Env, "WEIR_JOB="+c.token, "WEIR_SOCKET="+path)
		r.start(t)
		conn, err := ln.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		if c.answer != nil {
			if n, err := conn.Read(make([]byte, 256)); n == 0 {
				t.Fatal(err)
			}
			c.answer(conn)
		}
		if err := r.Wait(); err == nil || !strings.Contains(r.err.String(), c.says) {
			t.Errorf("%v, %q, want %q", err, r.err.String(), c.says)
		}
		_ = conn.Close()
		_ = ln.Close()
	}
}
