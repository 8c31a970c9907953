package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/server/web"
)

// served is a weir up in a process of its own.
type served struct {
	cmd     *exec.Cmd
	address string // of HTTP, with a slash
}

// serveUp starts a weir up and waits until the digits are served.
func (s *stage) serveUp(args ...string) *served {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], append([]string{"up", "--http",
		"localhost:0", "--metrics", "", "--grpc", ""}, args...)...)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = s.t.TempDir(), s.t.Output(), time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	u := &served{cmd: cmd}
	s.t.Cleanup(func() { u.end(syscall.SIGKILL) })
	printed := bufio.NewReader(out)
	for line := ""; !strings.HasPrefix(line, "curl"); {
		if line, err = printed.ReadString('\n'); err != nil {
			s.t.Fatal(err)
		}
		if address, is := strings.CutSuffix(line, " is the page\n"); is {
			u.address = address
		}
	}
	return u
}

// end ends it by a signal.
func (u *served) end(sig syscall.Signal) {
	_ = u.cmd.Process.Signal(sig)
	_ = u.cmd.Wait()
}

// state is what the page shows.
func (u *served) state(t *testing.T) (now web.State) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, u.address+"v1/state")), &now); err != nil {
		t.Fatal(err)
	}
	return now
}

// deviceIn is a device of a snapshot; its zero value where there is none.
func deviceIn(s *agent.Snapshot, name string) agent.DeviceSnapshot {
	if s != nil {
		for _, d := range s.Devices {
			if d.Device == name {
				return d
			}
		}
	}
	return agent.DeviceSnapshot{}
}

// says holds the exit code of a command, and that it says something.
func (s *stage) says(code int, says string, args ...string) {
	s.t.Helper()
	if got, out := s.weir(args...); got != code || !strings.Contains(out, says) {
		s.t.Errorf("weir %q: exit code %d, %s; want %d and %q", args, got, out, code, says)
	}
}

// TestUpHasPrograms: weir exec finds the agent that weir up is. Programs and models stand in one
// list, on the page, in weir top and in the metrics; one command changes the share of either, and
// the policy of both. Programs outlive a server that is killed, and are the next one's.
func TestUpHasPrograms(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_MEMORY", "80MiB")
	t.Setenv("WEIR_FAKE_CONTEXT", "1MiB")
	driver, _, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := s.serveUp("--fake-gpu")
	a := s.turns("a", filepath.Join(driver, "bin", "moved"), "2", "12")
	shows := func(u *served) func() bool {
		return func() bool {
			now := u.state(t)
			return len(now.Programs) == 1 && len(now.Devices) == 2 && len(now.Models) == 1 &&
				now.Programs[0].Name == "a" && now.Programs[0].Cap == 72<<20 &&
				now.Programs[0].Held > 0 && now.Programs[0].Device == now.Devices[1].Name &&
				now.Devices[1].Memory == 80<<20
		}
	}
	s.eventually("the page shows the program", shows(u))
	top := s.snapshot()
	if d := deviceIn(top, "cpu:0"); !d.Beside || len(d.Jobs) != 1 || d.Jobs[0].Name != "digits/1" ||
		d.Jobs[0].MemoryCapBytes == 0 || d.MemoryBytes == 0 || d.PromisedBytes == 0 {
		t.Errorf("of models weir top has %+v", d)
	}
	if d := deviceIn(top, "cuda:0"); d.Beside || len(d.Jobs) != 1 || d.Jobs[0].Name != "a" {
		t.Errorf("of programs weir top has %+v", d)
	}
	s.says(0, "digits/1", "top")
	s.shareOfEither(u)
	s.policyOfBoth(u)
	metrics := read(t, u.address+"metrics")
	for _, line := range []string{
		`weir_device_memory_bytes{device="cuda:0"} 83886080`,
		`weir_policy_info{device="cpu:0",policy="priority"} 1`,
		`weir_policy_info{device="cuda:0",policy="priority"} 1`,
		`weir_job_memory_cap_bytes{device="cuda:0",job="a"} 7.5497472e+07`,
		`weir_job_device_seconds_total{device="cuda:0",job="a"} `,
	} {
		if strings.Count(metrics, "\n"+line) != 1 {
			t.Errorf("the metrics have no %s", line)
		}
	}
	u.end(syscall.SIGKILL)
	u = s.serveUp("--fake-gpu")
	s.eventually("the next one shows it", shows(u))
	a.ends(t)
	s.eventually("it no longer does", func() bool { return len(u.state(t).Programs) == 0 })
	u.end(syscall.SIGINT)
	if code := u.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// shareOfEither changes the shares of program a and of the digits, by the agent's socket and by
// HTTP.
func (s *stage) shareOfEither(u *served) {
	t := s.t
	t.Helper()
	s.says(0, "compute 0.25", "set", "a", "--compute", "0.25")
	s.says(0, "digits: memory", "set", "digits", "--compute", "0.5")
	s.says(0, "limit 0.75", "set", "digits/1", "--limit", "0.75")
	s.says(1, "there is none", "set", "nobody", "--limit", "0.75")
	s.says(2, "compute is 2", "set", "digits", "--compute", "2")
	s.says(0, "class latency", "set", "a", "--class", "latency", "--server", u.address)
	s.says(1, "no program", "set", "nobody", "--limit", "0.75", "--server", u.address)
	s.says(1, "comes and goes", "set", "a", "--memory", "40MiB", "--server", u.address, "--device",
		"cuda:0")
	s.says(1, "no program", "set", "a", "--limit", "0.9", "--server", u.address, "--device",
		"cuda:1")
	top := s.snapshot()
	if j := deviceIn(top, "cuda:0").Jobs[0]; j.Compute != 0.25 || j.Class.String() != "latency" ||
		j.Limit != 1 {
		t.Errorf("the program has %+v", j)
	}
	if j := deviceIn(top, "cpu:0").Jobs[0]; j.Compute != 0.5 || j.Limit != 0.75 {
		t.Errorf("the model has %+v", j)
	}
}

// policyOfBoth changes the policy by the agent's socket and by HTTP: it decides on both devices, or
// all stays as it was.
func (s *stage) policyOfBoth(u *served) {
	t := s.t
	t.Helper()
	for _, by := range [][]string{nil, {"--server", u.address}} {
		for _, policy := range []string{"fifo", "priority"} {
			s.says(0, "policy "+policy, append([]string{"policy", policy}, by...)...)
			s.says(1, "would run at once", append([]string{"policy", "mps"}, by...)...)
			top := s.snapshot()
			models, programs := deviceIn(top, "cpu:0").Policy, top.Policy
			if models != policy || programs != policy {
				t.Errorf("by %v: models are under %s, programs under %s, want %s", by, models,
					programs, policy)
			}
		}
	}
}

// TestUpShowsPrograms: programs of another process's agent stand beside the models of weir up for
// as long as they are there, and their devices. Once that agent has ended the server is theirs.
func TestUpShowsPrograms(t *testing.T) {
	s, bin := newTurns(t)
	u := s.serveUp("--fake-gpu")
	watches := s.serveUp("--no-agent", "--fake-gpu")
	a := s.turns("a", filepath.Join(bin, "moved"), "2", "12")
	for _, u := range []*served{u, watches} {
		s.eventually("the page shows the program", func() bool {
			now := u.state(t)
			return len(now.Programs) == 1 && len(now.Devices) == 2 && now.Programs[0].Held > 0
		})
		s.says(0, "compute 0.25", "set", "a", "--compute", "0.25", "--server", u.address)
	}
	if d := deviceIn(s.snapshot(), "cpu:0"); d.Device != "" {
		t.Errorf("the agent of another process has models: %+v", d)
	}
	s.killAgent(syscall.SIGTERM)
	s.eventually("the server has the program", func() bool {
		x := s.snapshot()
		return len(deviceIn(x, "cpu:0").Jobs) == 1 && len(deviceIn(x, "cuda:0").Jobs) == 1
	})
	s.eventually("so the other one shows it", func() bool {
		now := watches.state(t)
		return len(now.Programs) == 1 && len(now.Devices) == 2
	})
	a.ends(t)
}
