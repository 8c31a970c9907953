package fakecuda_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// profile names the device's profile in the tests' own environment, too.
const profile = "WEIR_FAKE_PROFILE"

// device is one fake device of its own and the programs that use it.
type device struct {
	t   *testing.T
	dir string // of the compiled driver
	env []string
}

// newDevice is one of the profile that the tests are run on. Nothing else in their own environment
// sets it up.
func newDevice(t *testing.T, dir string, env ...string) device {
	all := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "WEIR_FAKE_") && !strings.HasPrefix(v, profile+"=")
	})
	return device{t, dir, append(append(all, "WEIR_FAKE_DIR="+t.TempDir(), "LD_LIBRARY_PATH="+dir,
		"LD_PRELOAD="), env...)}
}

func (d device) command(program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(d.dir, "bin", program), args...)
	cmd.Env = d.env
	cmd.WaitDelay = patience // for what a child of it that stays has open
	return cmd
}

// exact reports whether the device does no more than it is asked to: that of the plain profile. Of
// any other a process's memory is free some time after its end.
func (d device) exact() bool {
	name := ""
	for _, v := range d.env {
		if value, found := strings.CutPrefix(v, profile+"="); found {
			name = value
		}
	}
	return name == "" || name == "plain"
}

// run returns what the program printed; it must end well.
func (d device) run(program string, args ...string) string {
	d.t.Helper()
	cmd := d.command(program, args...)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s %v: %v\n%s%s", program, args, err, out, talk.Bytes())
	}
	return string(out)
}

// result decodes the last line that the program printed.
func (d device) result(into any, program string, args ...string) {
	d.t.Helper()
	out := strings.TrimSpace(d.run(program, args...))
	decode(d.t, out, into)
}

func decode(t *testing.T, out string, into any) {
	t.Helper()
	last := out[strings.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal([]byte(last), into); err != nil {
		t.Fatalf("%v in %q", err, last)
	}
}

// ledger is what smi prints.
type ledger struct {
	Device    string
	Memory    uint64
	Used      uint64
	NowNS     uint64 `json:"now_ns"`
	BusyNS    uint64 `json:"busy_ns"`
	Switches  uint64
	Processes []struct {
		PID      int
		Memory   uint64
		Context  uint64
		DeviceNS uint64 `json:"device_ns"`
		Finished uint64
		Queued   uint64
	}
}

func (d device) ledger() ledger {
	d.t.Helper()
	var l ledger
	d.result(&l, "smi")
	if l.Device != fakecuda.Name {
		d.t.Errorf("the device calls itself %q", l.Device)
	}
	return l
}

// empty holds that no process is left and no memory is held.
func (d device) empty() {
	d.t.Helper()
	if !d.exact() {
		eventually(d.t, "the memory is free", func() bool { return d.ledger().Used == 0 })
	}
	if l := d.ledger(); l.Used != 0 || len(l.Processes) != 0 {
		d.t.Errorf("left behind: %d bytes, %d processes", l.Used, len(l.Processes))
	}
}

// builds are the ways that the programs are run: as they are, on both profiles, and with
// sanitizers, which also look for leaks, on that of the tests. Each process of a random program
// takes a second to end under the thread sanitizer.
var builds = []struct {
	name   string
	random string // programs
	flags  []string
	env    []string // of the device
}{
	{"plain", "20", nil, []string{profile + "=plain"}},
	{"hardware", "20", nil, []string{profile + "=hardware"}},
	{"address", "20",
		[]string{"-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}, nil},
	{"thread", "4", []string{"-O0", "-fsanitize=thread"}, nil},
}

// byValue has the device record events in no time of its own, for what holds times by value.
const byValue = "WEIR_FAKE_RECORD_NS=0"

func TestPrograms(t *testing.T) {
	driver(t)
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			dir := driver(t)
			if b.flags != nil {
				var err error
				if dir, err = fakecuda.Build(t.Context(), filepath.Dir(dir), "",
					b.flags...); err != nil {
					t.Skipf("no sanitizer: %v", err)
				}
			}
			for _, line := range []string{
				"semantics", "contents", "copies", "random 1 " + b.random + " 60000",
				"threads 64 4",
				"alloc_storm 20000 64 1",
				"alloc_storm 20000 4096 2 8",
				"fork_storm 9",
				"launch_storm 0.3 10 1000", "long_kernel 0.1", "future", "images", "ipc",
				"train 0.2 100", "clients 2 5", "capture_beside 2 hidden",
				"capture_beside 2 joined", "fault 20", "green 5 default",
			} {
				args := strings.Fields(line)
				d := newDevice(t, dir, b.env...)
				if args[0] == "semantics" {
					d = d.with(byValue)
				}
				d.run(args[0], args[1:]...)
				d.empty()
			}
		})
	}
}

// Copies between devices move what each has.
func TestCopiesBetweenDevices(t *testing.T) {
	newDevice(t, driver(t), "WEIR_FAKE_GPUS=2").run("copies", "1")
}

func TestAllocations(t *testing.T) {
	var got struct{ Operations, Allocations, Refused, Used int64 }
	d := newDevice(t, driver(t), "WEIR_FAKE_MEMORY=1GiB")
	d.result(&got, "alloc_storm", "50000", "512", "7", "4")
	if got.Used != 0 || got.Refused == 0 || got.Allocations < 1000 {
		t.Errorf("got %+v: want nothing left, some refused, many served", got)
	}
	d.empty()
}

func TestLongKernel(t *testing.T) {
	var got struct {
		Wall  float64 `json:"wall_ms"`
		Event float64 `json:"event_ms"`
	}
	// Between its first event and its launch the program may be kept from running, never during the
	// kernel: one try of several must be exact.
	for range 8 {
		newDevice(t, driver(t)).result(&got, "long_kernel", "0.4")
		if got.Event < 400 || got.Wall < got.Event {
			t.Fatalf("a kernel of 400 ms took %v ms by events, %v ms by the clock", got.Event,
				got.Wall)
		}
		if got.Event <= 401 {
			return
		}
	}
	t.Errorf("a kernel of 400 ms took %v ms by events", got.Event)
}

func TestEventsOfOtherProcesses(t *testing.T) {
	var got struct {
		Waited float64 `json:"waited_ms"`
	}
	newDevice(t, driver(t)).result(&got, "ipc")
	if got.Waited <= 0 || got.Waited > float64(patience.Milliseconds()) {
		t.Errorf("waited %v ms for a kernel of 200 ms", got.Waited)
	}
}

// Memory stays while an exported descriptor of it is open, and while a process has it open after
// the end of the one that allocated it.
func TestMemoryThatOthersHave(t *testing.T) {
	newDevice(t, driver(t)).result(&struct{}{}, "ipc", "left")
}

func TestBadSettings(t *testing.T) {
	d := newDevice(t, driver(t), "WEIR_FAKE_MEMORY=much")
	cmd := d.command("smi")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "WEIR_FAKE_MEMORY=much") {
		t.Errorf("got %v, %q: want the setting named", err, out)
	}
	d = newDevice(t, driver(t), "WEIR_FAKE_DIR=/proc/nowhere")
	out, err = d.command("train", "0.1").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) ||
		!strings.Contains(string(out), "WEIR_FAKE_DIR") {
		t.Errorf("got %v, %q: want an error that names the folder's setting", err, out)
	}
}

// A file of another layout or of before a restart is replaced.
func TestForeignFile(t *testing.T) {
	d := newDevice(t, driver(t))
	own := strings.TrimPrefix(d.env[len(d.env)-3], "WEIR_FAKE_DIR=")
	if err := os.WriteFile(filepath.Join(own, "gpu0"), bytes.Repeat([]byte{7}, 4096),
		0o600); err != nil {
		t.Fatal(err)
	}
	d.run("train", "0.05", "100", "64")
	d.empty()
}

// patience is how long tests wait for what is to come at last, on a host that does much else.
const patience = 2 * time.Minute

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
