package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// givenBefore are lines that a page has told of before the block that begins with the line.
var givenBefore = map[string]string{
	"weir set train --compute 0.5 --limit 0.8": "weir exec --memory 8GiB --compute 0.3 " +
		"-- python train.py",
	// a host with room for both, which not every one has that runs this
	"weir exec --oversubscribe --memory 70GiB -- python train.py": "weir agent " +
		"--host-memory 140GiB &",
}

// endedBefore is what a reader ends before a line that waits for it.
var endedBefore = map[string]string{"weir thaw train --wait": "serve.py"}

// reading is a block of shell commands while it is run. What cannot be had is stood in for: the GPU
// by the simulated one, python's programs by the one that comes with that, MPS's daemon by the
// simulated GPU's, and mpirun by a shell that starts the ranks.
type reading struct {
	*stage
	env  []string
	runs []running
}

// running is a line that goes on until it is ended.
type running struct {
	program string // which python runs
	ranks   int
	pid     int // of its process group
	ended   chan error
}

// TestPrintedSharesRun runs the blocks of README and docs that share a GPU between programs, line
// by line as they are printed: a line that starts a program is followed by the next once that
// launches kernels, any other once it has ended well.
func TestPrintedSharesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles C")
	}
	for _, tool := range []string{"bash", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	ran := 0
	for _, page := range printedPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlocks(string(text)) {
			if !slices.ContainsFunc(block, needsGPU) {
				continue
			}
			t.Run(filepath.Base(page), func(t *testing.T) {
				r := newReading(t)
				if line := givenBefore[block[0]]; line != "" {
					r.do(line)
				}
				for _, line := range block {
					if needsGPU(line) {
						r.do(line)
						ran++
					}
				}
			})
		}
	}
	if ran < 17 && !t.Failed() {
		t.Errorf("only %d lines were run", ran)
	}
}

func newReading(t *testing.T) *reading {
	s := newStage(t)
	// What is moved when the program of 60 GiB is frozen, 640 MiB, makes room for one of 50.
	t.Setenv("WEIR_FAKE_MEMORY", "112128MiB") // 109.5 GiB
	t.Setenv("WEIR_FAKE_GPUS", "2")
	driver, example, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, script := range map[string]string{
		"weir": fmt.Sprintf(`case $1 in exec|agent) c=$1; shift; exec %s $c --fake-gpu "$@";; esac
exec %[1]s "$@"`, os.Args[0]),
		"python": "exec " + example + " 0 1000 640",
		"mpirun": `[ "$1" = -n ] && n=$2 && shift 2 || exit 2
for rank in $(seq 0 $((n - 1))); do OMPI_COMM_WORLD_LOCAL_RANK=$rank "$@" & done
wait`,
		fakecuda.Control: "exec " + filepath.Join(driver, "bin", fakecuda.Control) + ` "$@"`,
	} {
		err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777)
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &reading{s, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), nil}
	t.Cleanup(func() {
		r.end("")
		quit := exec.Command(filepath.Join(bin, fakecuda.Control))
		quit.Stdin = strings.NewReader("quit\n")
		_ = quit.Run() // most have no daemon
	})
	return r
}

// do runs a line.
func (r *reading) do(line string) {
	r.t.Helper()
	if program := endedBefore[line]; program != "" {
		r.end(program)
	}
	cmd := exec.CommandContext(r.t.Context(), "bash", "-c", line)
	cmd.Env = r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(filepath.Join(r.t.TempDir(), "out")) // which a daemon keeps open
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = out.Close() })
	cmd.Stdout, cmd.Stderr = out, out
	said := func() string {
		text, _ := os.ReadFile(out.Name())
		return string(text)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	run := running{ranks: 1, pid: cmd.Process.Pid, ended: make(chan error, 1)}
	go func() { run.ended <- cmd.Wait() }()
	_, program, starts := strings.Cut(line, "-- python ")
	if !starts {
		if err := <-run.ended; err != nil {
			r.t.Fatalf("%s: %v\n%s", line, err, said())
		}
		if strings.HasPrefix(line, "weir agent ") {
			r.eventually("the agent answers", func() bool { return r.snapshot() != nil })
		}
		return
	}
	if strings.HasPrefix(line, "mpirun -n 2 ") {
		run.ranks = 2
	}
	run.program = strings.Trim(program, "' ")
	r.runs = append(r.runs, run)
	r.eventually(line+" runs", func() bool {
		select {
		case err := <-run.ended:
			run.ended <- err
			r.t.Fatalf("%s: %v\n%s", line, err, said())
		default:
		}
		return r.launching() == r.ranks()
	})
}

// ranks are the jobs that there are to be.
func (r *reading) ranks() int {
	n := 0
	for _, run := range r.runs {
		n += run.ranks
	}
	return n
}

// launching counts the jobs that have launched kernels, or are frozen and did.
func (r *reading) launching() int {
	n := 0
	if x := r.snapshot(); x != nil {
		for _, d := range x.Devices {
			for _, j := range d.Jobs {
				if j.Launches > 0 {
					n++
				}
			}
		}
	}
	return n
}

// end ends what runs a program, or all that runs.
func (r *reading) end(program string) {
	r.runs = slices.DeleteFunc(r.runs, func(run running) bool {
		if program != "" && run.program != program {
			return false
		}
		_ = syscall.Kill(-run.pid, syscall.SIGTERM)
		<-run.ended
		return true
	})
}
