package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/web"
)

// TestUpShowsPrograms: programs under weir exec stand beside the models of weir up, for as long as
// they are there, and their devices.
func TestUpShowsPrograms(t *testing.T) {
	s, bin := newTurns(t)
	printed, _ := up(t)
	line, err := printed.ReadString('\n')
	address, told := strings.CutSuffix(line, " is the page\n")
	if !told {
		t.Fatalf("printed %q (%v)", line, err)
	}
	state := func() (now web.State) {
		if err := json.Unmarshal([]byte(read(t, address+"v1/state")), &now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	a := s.turns("a", filepath.Join(bin, "moved"), "2", "12")
	s.eventually("the page shows the program", func() bool {
		now := state()
		return len(now.Programs) == 1 && len(now.Devices) == 2 && len(now.Models) == 1 &&
			now.Programs[0].Name == "a" && now.Programs[0].Cap == 72<<20 &&
			now.Programs[0].Held > 0 && now.Programs[0].Device == now.Devices[1].Name &&
			now.Devices[1].Memory == 80<<20
	})
	a.ends(t)
	s.eventually("the page no longer shows it", func() bool { return len(state().Programs) == 0 })
	s.killAgent(9)
	s.eventually("the page no longer shows its device", func() bool {
		return len(state().Devices) == 1
	})
}
