package fakecuda_test

import (
	"bufio"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// client is what the program clients says of itself.
type client struct {
	Enabled, Before, After, Context, Later int
	MS                                     float64
}

// startMPS starts a control daemon that ends with the test, and returns its pid.
func (d device) startMPS() int {
	d.t.Helper()
	cmd := d.command(fakecuda.Control, "-f")
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		d.t.Fatalf("the daemon said %q: %v", line, err)
	}
	return cmd.Process.Pid
}

// say gives the daemon a command and returns its answer.
func (d device) say(command string) string {
	d.t.Helper()
	cmd := d.command(fakecuda.Control)
	cmd.Stdin = strings.NewReader(command + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// with is the device for programs with more in their environment.
func (d device) with(env ...string) device {
	d.env = append(append([]string{}, d.env...), env...)
	return d
}

const (
	percentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="
	perContext = "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1"
)

// TestMPSLimits: what a client may use is fixed by its environment when it begins, and cannot be
// raised by it afterwards; with limits for each context, when the context is made, below that.
func TestMPSLimits(t *testing.T) {
	d := newDevice(t, driver(t))
	alone := d.with(percentage + "25")
	if cmd := d.command(fakecuda.Control); cmd.Run() != nil {
		t.Error("the control program fails without a command")
	}
	cmd := d.command(fakecuda.Control)
	cmd.Stdin = strings.NewReader("get_server_list\n")
	if out, err := cmd.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Cannot find") {
		t.Errorf("a command with no daemon: %v, %s", err, out)
	}
	check := func(name string, d device, later string, want client) {
		t.Helper()
		var got client
		d.result(&got, "clients", "1", "1", later)
		if got.MS = 0; got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	check("no daemon", alone, "100", client{0, 64, 64, 64, 64, 0})
	pid := d.startMPS()
	if got := d.say("get_server_list"); got != "" {
		t.Errorf("servers before the first client: %q", got)
	}
	check("no limit", d, "100", client{1, 64, 64, 64, 64, 0})
	check("no limit, lowered later", d, "25", client{1, 64, 64, 64, 64, 0})
	check("a quarter, raised later", alone, "100", client{1, 16, 16, 16, 16, 0})
	check("rounded down", d.with(percentage+"30"), "100", client{1, 18, 18, 18, 18, 0})
	check("at least one grain", d.with(percentage+"0.5"), "100", client{1, 2, 2, 2, 2, 0})
	check("no percentage", d.with(percentage+"much"), "100", client{1, 64, 64, 64, 64, 0})
	check("each context", d.with(percentage+"50", perContext), "25", client{1, 32, 16, 16, 16, 0})
	check("each context, raised", d.with(percentage+"50", perContext), "100",
		client{1, 32, 32, 32, 32, 0})
	d.say("set_active_thread_percentage " + d.say("get_server_list") + " 50")
	check("within the server's", d.with(percentage+"75"), "100", client{1, 32, 32, 32, 32, 0})
	if got := d.say("get_active_thread_percentage " + d.say("get_server_list")); got != "50.0" {
		t.Errorf("the server's percentage is %s, want 50.0", got)
	}
	if got := d.timeline(); len(got) == 0 || got[len(got)-1].pid != pid {
		t.Errorf("the last work is %+v, want the server's, %d", got[max(0, len(got)-1):], pid)
	}
	check("another daemon's folder", d.with("CUDA_MPS_PIPE_DIRECTORY="+t.TempDir()), "100",
		client{0, 64, 64, 64, 64, 0})
	d.say("quit")
	check("after the daemon", d, "100", client{0, 64, 64, 64, 64, 0})
}

// beside runs programs that always have work, each with its environment, and returns what part of
// the device each has in a window, and the device's switches meanwhile. It calls see with one
// window after the other until that is content.
func (d device) beside(envs [][]string, see func(parts []float64, busy float64,
	switches uint64) bool) {
	d.t.Helper()
	var pids []int
	for _, env := range envs {
		cmd := d.with(env...).command("train", "0", "10000", "64")
		if err := cmd.Start(); err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		pids = append(pids, cmd.Process.Pid)
	}
	eventually(d.t, "all work", func() bool {
		working := 0
		for _, p := range d.ledger().Processes {
			if p.Finished > 1 {
				working++
			}
		}
		return working == len(pids)
	})
	before := d.ledger()
	eventually(d.t, "the parts are as they should be", func() bool {
		now := d.ledger()
		window := float64(now.NowNS - before.NowNS)
		if window < 200e6 {
			return false
		}
		var parts []float64
		for _, pid := range pids {
			parts = append(parts, float64(now.of(pid)-before.of(pid))/window)
		}
		done := see(parts, float64(now.BusyNS-before.BusyNS)/window, now.Switches-before.Switches)
		before = now
		return done
	})
}

func (l ledger) of(pid int) uint64 {
	for _, p := range l.Processes {
		if p.PID == pid {
			return p.DeviceNS
		}
	}
	return 0
}

// TestMPSTogether: clients run at once, each at the speed that its part of the multiprocessors
// gives, and where the parts are more than the device, at less in proportion; others take turns
// with all of them.
func TestMPSTogether(t *testing.T) {
	quarter, rest := []string{percentage + "25"}, []string{percentage + "75"}
	other := []string{"CUDA_MPS_PIPE_DIRECTORY=" + t.TempDir()}
	for _, c := range []struct {
		name  string
		envs  [][]string
		parts []float64
		turns bool
	}{
		{"quarter alone", [][]string{quarter}, []float64{0.25}, false},
		{"a quarter and the rest", [][]string{quarter, rest}, []float64{0.25, 0.75}, false},
		{"both the whole", [][]string{nil, nil}, []float64{0.5, 0.5}, false},
		{"beside no client", [][]string{quarter, rest, other}, []float64{0.125, 0.375, 0.5}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, driver(t), "WEIR_FAKE_SWITCH_US=0")
			d.startMPS()
			d.beside(c.envs, func(parts []float64, busy float64, switches uint64) bool {
				off := math.Abs(busy - 1)
				for i := range parts {
					off = max(off, math.Abs(parts[i]-c.parts[i]))
					if !c.turns && len(parts) < 2 && parts[i] > c.parts[i]+1e-6 {
						t.Fatalf("client %d has %.6f of the device, and may have %.3f", i, parts[i],
							c.parts[i])
					}
				}
				return off < 0.02 && (switches > 10) == c.turns
			})
		})
	}
}
