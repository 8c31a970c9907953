package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangup: SIGHUP has a server follow its file.
func TestHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, "policy: priority\nmodels: [{name: digits, share: {class: latency}}]")
	printed, _ := up(t, "--config", path)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(line, " is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	for !strings.HasPrefix(line, "curl") { // by then it listens for signals
		if line, err = printed.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	eventually := func(policy, class string) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second) // the page looks at the device twice a second
		for {
			state := read(t, address+"v1/state")
			if strings.Contains(state, `"policy":"`+policy+`"`) &&
				strings.Contains(state, `"class":"`+class+`"`) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("want %s and %s: %s", policy, class, state)
			}
		}
	}
	eventually("priority", "latency")
	write(t, path, "policy: fair\nmodels: [{name: digits, share: {class: opportunistic}}]")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually("fair", "opportunistic")
}
