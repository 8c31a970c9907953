package main

import (
	"bytes"
	bytesof "encoding/binary" // a command has the other name
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/scenario"
)

// created returns the names that have come into a folder since it was watched: those made there,
// and those that something was renamed to.
func created(t *testing.T, watch int) (made, renamed []string) {
	t.Helper()
	events := make([]byte, 1<<16)
	n, err := unix.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	for rest := events[:n]; len(rest) >= unix.SizeofInotifyEvent; {
		mask := bytesof.NativeEndian.Uint32(rest[4:])
		end := unix.SizeofInotifyEvent + int(bytesof.NativeEndian.Uint32(rest[12:]))
		name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))
		switch rest = rest[end:]; {
		case mask&unix.IN_CREATE != 0:
			made = append(made, name)
		case mask&unix.IN_MOVED_TO != 0:
			renamed = append(renamed, name)
		}
	}
	return made, renamed
}

// TestSocketComesListening: no socket of a run is where weir set looks for it before somebody
// listens there. One that was made there would be for a moment, and be taken away as that of a run
// that was killed.
func TestSocketComesListening(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("WEIR_RUNTIME_DIR", dir)
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip("no inotify: ", err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	var o scenario.Options
	stop := controlled(t.Context(), &o)
	defer stop()
	made, renamed := created(t, watch)
	for _, name := range made {
		if found, _ := filepath.Match(scenarioSockets, name); found {
			t.Errorf("%s was there before anybody listened", name)
		}
	}
	if len(renamed) != 1 || o.Control == nil {
		t.Fatalf("what came is %q and %q", made, renamed)
	}
	if found, _ := filepath.Match(scenarioSockets, renamed[0]); !found {
		t.Errorf("weir set does not look for %s", renamed[0])
	}
	r, err := askSet(filepath.Join(dir, renamed[0]), agent.ShareChange{Job: "nobody"})
	if err != nil {
		t.Errorf("nobody listens: %+v, %v", r, err)
	}
}
