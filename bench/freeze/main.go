// Command freeze measures how long weir freeze and weir thaw take for 1 GiB of a program's memory,
// over copies of the same bytes, on the simulated driver:
//
//	go run ./bench/freeze                # both profiles of the device, a minute
//	go run ./bench/freeze -json > bench/results/DATE-freeze.json
//
// A freeze and the thaw after it move the bytes to memory of the host and back, and so do the
// copies that the program makes, in turn with them: by the driver to pinned memory that it has
// already and back ("copy"), by memcpy within the host to memory that is there and back ("memcpy"),
// and by memcpy, twice, into memory that nobody has used yet ("fresh"), as the first freeze too has
// to get memory of the host, which is kept for the next one, and a thaw memory of the device. The
// bound is over the driver's copies. The other figures are notes: memcpy knows no bus, and no
// memory that is given away and has to be got again, which a system clears; "freeze, seen" is what
// the command took as whoever types it sees it, which begins with a process. Medians are quoted, so
// the first round, which is many times slower, does not count. Every byte is compared after each
// thaw.
//
// The device is simulated: copies take its time by a bandwidth, and then the host's to be made. The
// figures say nothing about a GPU. The exit code is 1 when a bound is missed or a byte is wrong.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/shim/stage"
)

// bound is by how much a freeze and a thaw may take longer than the copies.
const bound = 1.3

type results struct {
	Date      string             `json:"date"`
	Device    string             `json:"device"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	MiB       int                `json:"mib"`
	// Foreign is the processor time, in cores, that others took meanwhile.
	Foreign float64     `json:"foreign_cores"`
	Claims  claims.Book `json:"claims"`
	// Seconds are the rounds by what was measured.
	Seconds map[string][]float64 `json:"seconds"`
	// OverMemcpy is the median of freeze and thaw over memcpy to memory that is there and back, by
	// profile, and OverFresh that over memcpy into fresh memory.
	OverMemcpy map[string]float64 `json:"over_memcpy"`
	OverFresh  map[string]float64 `json:"over_fresh"`
	// FirstOverFresh is the same of the first round, in which memory of the host has to be got.
	FirstOverFresh map[string]float64 `json:"first_over_fresh"`
}

const command claims.Command = "freeze"

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 7, "how often each is measured; medians are quoted")
	mib := flag.Int("mib", 1024, "how much memory is moved, in MiB")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &results{
		Date:           time.Now().UTC().Format("2006-01-02"),
		Device:         "weir fake GPU: simulated",
		Machine:        cpuinfo.ModelName(),
		Processor:      roofline.Identify(),
		Cores:          runtime.NumCPU(),
		Go:             runtime.Version(),
		MiB:            *mib,
		Seconds:        map[string][]float64{},
		OverMemcpy:     map[string]float64{},
		OverFresh:      map[string]float64{},
		FirstOverFresh: map[string]float64{},
	}
	others := claims.Start()
	for _, profile := range []string{"plain", "hardware"} {
		command.Check(measure(ctx, r, profile, max(1, *rounds)))
	}
	held := r.Claims.Judge(os.Stderr)
	r.Foreign = others.Foreign()
	fmt.Fprintf(os.Stderr,
		"others took %.2f of %d cores meanwhile; all of this is of the fake GPU\n", r.Foreign,
		r.Cores)
	command.Finish(r, *asJSON, held)
}

// measure makes the rounds on one profile.
func measure(ctx context.Context, r *results, profile string, rounds int) error {
	s, err := stage.New(ctx, "WEIR_FAKE_PROFILE="+profile, "WEIR_FAKE_MEMORY=8GiB")
	if err != nil {
		return err
	}
	defer s.Close()
	a := exec.CommandContext(ctx, s.Weir, "agent", "--fake-gpu")
	a.Env = s.Env
	if err := a.Start(); err != nil {
		return err
	}
	defer func() {
		_ = a.Process.Signal(syscall.SIGTERM)
		_ = a.Wait()
	}()
	b, err := startBulk(ctx, s, r.MiB)
	if err != nil {
		return err
	}
	defer b.close()
	var over, overWarm []float64
	for range rounds {
		took, err := b.round()
		if err != nil {
			return fmt.Errorf("%s: %w", profile, err)
		}
		for name, seconds := range took {
			key := profile + " " + name
			r.Seconds[key] = append(r.Seconds[key], seconds)
		}
		moved := took["freeze"] + took["thaw"]
		r.Claims.Check(fmt.Sprintf("%s: freeze and thaw of %d MiB over the driver's copies",
			profile, r.MiB), moved/took["copy"], bound, true)
		over = append(over, moved/took["fresh"])
		overWarm = append(overWarm, moved/took["memcpy"])
		fmt.Fprintf(os.Stderr,
			"%s: freeze %.3f s, thaw %.3f s; copy %.3f s, memcpy %.3f s, fresh %.3f s (fake GPU)\n",
			profile, took["freeze"], took["thaw"], took["copy"], took["memcpy"], took["fresh"])
	}
	r.OverFresh[profile], r.FirstOverFresh[profile] = claims.Median(over), over[0]
	r.OverMemcpy[profile] = claims.Median(overWarm)
	return nil
}

// bulk is a program under weir exec that holds memory and times copies of it.
type bulk struct {
	s    *stage.Stage
	ctx  context.Context
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
}

func startBulk(ctx context.Context, s *stage.Stage, mib int) (*bulk, error) {
	b := &bulk{s: s, ctx: ctx}
	b.cmd = exec.CommandContext(ctx, s.Weir, "exec", "--fake-gpu", "--oversubscribe", "--name",
		"bulk", "--memory", "6GiB", "--", filepath.Join(s.Driver, "bin", "bulk"), fmt.Sprint(mib))
	b.cmd.Env, b.cmd.Stderr = s.Env, os.Stderr
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	b.said = bufio.NewScanner(out)
	if !b.said.Scan() || b.said.Text() != "ready" {
		b.close()
		return nil, fmt.Errorf("bulk: says %q", b.said.Text())
	}
	return b, nil
}

func (b *bulk) close() {
	_ = b.in.Close()
	_ = b.cmd.Wait()
}

// round moves the memory and copies it, and returns the seconds.
func (b *bulk) round() (map[string]float64, error) {
	took := map[string]float64{}
	for _, line := range []string{"copy", "memcpy", "fresh"} {
		var answer struct{ Seconds float64 }
		if err := b.tell(line, &answer); err != nil {
			return nil, err
		}
		took[line] = answer.Seconds
	}
	for _, name := range []string{"freeze", "thaw"} {
		began := time.Now()
		out, err := b.weir(name)
		if err != nil {
			return nil, err
		}
		took[name+", seen"] = time.Since(began).Seconds()
		var report agent.FreezeReport
		if err := json.Unmarshal(out, &report); err != nil {
			return nil, fmt.Errorf("weir %s: %w", name, err)
		}
		took[name] = report.Seconds
	}
	var answer struct{ Wrong int }
	if err := b.tell("check", &answer); err != nil {
		return nil, err
	}
	if answer.Wrong != 0 {
		return nil, fmt.Errorf("%d words are wrong after a freeze and a thaw", answer.Wrong)
	}
	return took, nil
}

// tell has the program do something.
func (b *bulk) tell(line string, answer any) error {
	if _, err := fmt.Fprintln(b.in, line); err != nil {
		return err
	}
	if !b.said.Scan() {
		return fmt.Errorf("bulk: has ended at %s: %w", line, b.said.Err())
	}
	return json.Unmarshal(b.said.Bytes(), answer)
}

// weir runs a command of weir's on the program's job.
func (b *bulk) weir(name string) ([]byte, error) {
	cmd := exec.CommandContext(b.ctx, b.s.Weir, name, "bulk", "--json")
	var said strings.Builder
	cmd.Env, cmd.Stderr = b.s.Env, &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("weir %s: %w: %s", name, err, said.String())
	}
	return out, nil
}
