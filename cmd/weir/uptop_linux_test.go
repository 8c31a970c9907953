package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

// TestUpAloneIsAsked: without any GPU weir top, weir set and weir policy find the models of weir
// up, too, under whatever policy models can have; another server there leaves them to the first,
// and one that may not have the folder serves all the same.
func TestUpAloneIsAsked(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("WEIR_RUNTIME_DIR", filepath.Join(dir, "run"))
	t.Setenv("WEIR_NVML", filepath.Join(dir, "none.so"))
	t.Setenv(commandVariable, "1")
	s := &stage{t, filepath.Join(dir, "run")}
	s.says(1, "no agent is running", "top")
	u, other := s.serveUp(), s.serveUp()
	s.says(0, "digits/1", "top")
	s.says(0, "compute 0.5", "set", "digits", "--compute", "0.5")
	s.says(1, "there is none", "set", "nobody", "--compute", "0.5")
	s.says(0, "policy mps", "policy", "mps")
	for of, mps := range map[*served]bool{u: true, other: false} {
		s.eventually("the page has the policy and no programs", func() bool {
			now := of.state(t)
			return len(now.Programs) == 0 && len(now.Devices) == 1 && len(now.Models) == 1 &&
				(now.Devices[0].Policy == "mps") == mps
		})
	}
	d := deviceIn(s.snapshot(), "cpu:0")
	if !d.Beside || len(d.Jobs) != 1 || d.Jobs[0].Compute != 0.5 || d.Policy != "mps" {
		t.Errorf("weir top has %+v", d)
	}
	c, err := agent.Dial(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(agent.JobRequest{Job: share.Job{Name: "a"}}); err == nil ||
		!strings.Contains(err.Error(), "no device cuda:0") {
		t.Errorf("a program without a GPU: %v", err)
	}
	u.end(syscall.SIGTERM)
	s.eventually("the other one is asked", func() bool {
		d := deviceIn(s.snapshot(), "cpu:0")
		return len(d.Jobs) == 1 && d.Policy != "mps"
	})
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_RUNTIME_DIR", filepath.Join(dir, "file"))
	u = s.serveUp()
	s.eventually("without a folder it serves", func() bool { return len(u.state(t).Models) == 1 })
}
