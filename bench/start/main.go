// Command start measures how long a process takes from its start to its first output, beside ONNX
// Runtime:
//
//	go run ./bench/start                # about a minute; wants the standard models and a Python
//	                                    # that has onnxruntime
//	go run ./bench/start -json > bench/results/DATE-start.json
//
// weir's time runs from the call that starts `weir run MODEL` to the first byte of its output, as
// the parent sees it: the loading of the program is in it. The first start finds an empty plan
// cache, the second the entry that the first wrote. ONNX Runtime's time leaves out Python and its
// imports: it is the creation of the session and the first run. Its second start loads the
// optimised model that it has saved itself, without optimising again. Files are in the page cache
// for both. Rounds take all of them in turn, and medians are quoted; the exit code is 1 when a
// bound of weir's second start is missed.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/zoo"
)

// bounds are those of issue 5 for the second start, in milliseconds.
var bounds = []struct {
	model string
	most  float64
	aim   float64
}{{"mobilenetv2", 40, 15}, {"resnet50", 120, 60}}

//go:embed peer.py
var peerScript string

// line is one model's medians, in milliseconds.
type line struct {
	Model      string  `json:"model"`
	First      float64 `json:"first_ms"`
	Second     float64 `json:"second_ms"`
	SecondMin  float64 `json:"second_min_ms"`
	Load       float64 `json:"second_load_ms"` // of which weir itself says
	Run        float64 `json:"second_run_ms"`
	PeerFirst  float64 `json:"onnxruntime_first_ms,omitempty"`
	PeerSecond float64 `json:"onnxruntime_optimised_ms,omitempty"`
	Bound      float64 `json:"bound_ms"`
	Aim        float64 `json:"aim_ms"`
	Held       bool    `json:"held"`
}

type results struct {
	Date       string             `json:"date"`
	Machine    string             `json:"machine"`
	Processor  roofline.Processor `json:"processor"`
	Cores      int                `json:"cores"`
	Go         string             `json:"go"`
	Peer       string             `json:"onnxruntime,omitempty"`
	Rounds     int                `json:"rounds"`
	LoadBefore float64            `json:"load_average_before"`
	LoadAfter  float64            `json:"load_average_after"`
	// the same program printing its help: what any start costs
	Program float64   `json:"help_ms"`
	Bytes   int64     `json:"program_bytes"`
	Models  []line    `json:"models"`
	times   []float64 // of Program
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 15, "starts of each kind and model")
	binary := flag.String("weir", "",
		"the program to measure (default: builds ./cmd/weir without cgo)")
	models := flag.String("models", "",
		"folder with mobilenetv2.onnx and resnet50.onnx (default: weir/zooref in the user's cache "+
			"folder, or new ones)")
	python := flag.String("python", "",
		"a Python that has onnxruntime (default: that of internal/conformance/peer; "+
			"none: weir alone)")
	flag.Parse()
	const command claims.Command = "start"
	r, err := measure(*rounds, *binary, *models, *python)
	command.Check(err)
	command.Finish(r, *asJSON, r.print())
}

// print shows the figures on standard error and reports whether all bounds are held.
func (r *results) print() bool {
	held := true
	for _, l := range r.Models {
		fmt.Fprintf(os.Stderr,
			"%-12s weir first %6.1f ms, second %6.1f ms (load %.1f, run %.1f; bound %.0f %s, aim "+
				"%.0f)", l.Model, l.First, l.Second, l.Load, l.Run, l.Bound,
			map[bool]string{true: "held", false: "MISSED"}[l.Held], l.Aim)
		if r.Peer != "" {
			fmt.Fprintf(os.Stderr, "   onnxruntime %6.1f ms, optimised by itself %6.1f ms",
				l.PeerFirst, l.PeerSecond)
		}
		fmt.Fprintln(os.Stderr)
		held = held && l.Held
	}
	fmt.Fprintf(os.Stderr, "weir --help %.1f ms; load average %.1f before, %.1f after\n", r.Program,
		r.LoadBefore, r.LoadAfter)
	return held
}

// bench is what all rounds use.
type bench struct {
	dir, binary, python, script string
	cache                       string // folder of the plan cache
	models                      []*subject
}

// subject is a model and its times.
type subject struct {
	line
	file, optimised string

	first, second, load, run, peerFirst, peerSecond []float64
}

func measure(rounds int, binary, models, python string) (*results, error) {
	dir, err := os.MkdirTemp("", "weir-start-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := &bench{
		dir:    dir,
		binary: binary,
		python: python,
		script: filepath.Join(dir, "peer.py"),
		cache:  filepath.Join(dir, "plans"),
	}
	if err := b.prepare(models); err != nil {
		return nil, err
	}
	r := newResults(rounds, b.binary)
	if b.python != "" {
		if r.Peer, err = b.peerVersion(); err != nil {
			return nil, err
		}
	}
	for range rounds {
		for _, s := range b.models {
			if err := b.round(s); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Model, err)
			}
		}
		took, _, err := b.start("--help")
		if err != nil {
			return nil, err
		}
		r.times = append(r.times, took)
	}
	r.summarise(b.models)
	return r, nil
}

// newResults are the facts of the machine and the program.
func newResults(rounds int, binary string) *results {
	r := &results{
		Date:       time.Now().UTC().Format("2006-01-02"),
		Machine:    cpuinfo.ModelName(),
		Processor:  roofline.Identify(),
		Cores:      runtime.NumCPU(),
		Go:         runtime.Version(),
		Rounds:     rounds,
		LoadBefore: loadAverage(),
	}
	if info, err := os.Stat(binary); err == nil {
		r.Bytes = info.Size()
	}
	return r
}

// summarise takes the medians of all rounds.
func (r *results) summarise(models []*subject) {
	r.Program, r.LoadAfter = claims.Median(r.times), loadAverage()
	for _, s := range models {
		l := s.line
		l.First, l.Second = claims.Median(s.first), claims.Median(s.second)
		l.SecondMin, l.Load, l.Run = slices.Min(s.second), claims.Median(s.load),
			claims.Median(s.run)
		l.PeerFirst, l.PeerSecond = claims.Median(s.peerFirst), claims.Median(s.peerSecond)
		l.Held = l.Second <= l.Bound
		r.Models = append(r.Models, l)
	}
}

// prepare builds the program and finds the models and the peer.
func (b *bench) prepare(models string) error {
	if b.binary == "" {
		if err := b.build(); err != nil {
			return err
		}
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	if models == "" {
		models = filepath.Join(user, "weir", "zooref")
	}
	if err := b.find(models); err != nil {
		return err
	}
	if err := b.settle(); err != nil {
		return err
	}
	if b.python == "" {
		b.python = findPeer(filepath.Join(user, "weir"))
	}
	return os.WriteFile(b.script, []byte(peerScript), 0o600)
}

// build builds the program.
func (b *bench) build() error {
	b.binary = filepath.Join(b.dir, "weir")
	build := exec.Command("go", "build", "-o", b.binary, "./cmd/weir")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build ./cmd/weir: %w: run this from the module's root", err)
	}
	return nil
}

// find takes the models from a folder, and makes those that it lacks.
func (b *bench) find(models string) error {
	for _, m := range bounds {
		s := &subject{
			line:      line{Model: m.model, Bound: m.most, Aim: m.aim},
			file:      filepath.Join(models, m.model+".onnx"),
			optimised: filepath.Join(b.dir, m.model+".optimised.onnx"),
		}
		if _, err := os.Stat(s.file); err != nil {
			s.file = filepath.Join(b.dir, m.model+".onnx")
			if err := newModel(s.file, m.model); err != nil {
				return err
			}
		}
		b.models = append(b.models, s)
	}
	return nil
}

func newModel(path, name string) error {
	g, err := zoo.New(name, zoo.Options{})
	if err != nil {
		return err
	}
	return onnx.WriteFile(path, g, onnx.WriteOptions{})
}

// settle waits until the models are old enough for their plans to be kept.
func (b *bench) settle() error {
	for _, s := range b.models {
		info, err := os.Stat(s.file)
		if err != nil {
			return err
		}
		time.Sleep(time.Until(info.ModTime().Add(2 * cache.Settled)))
	}
	return nil
}

// findPeer returns the newest Python environment of internal/conformance/peer that is complete, ""
// for none.
func findPeer(dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "peer-*", "complete"))
	age := func(path string) time.Time {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(found, func(a, b string) int { return age(b).Compare(age(a)) })
	if len(found) == 0 {
		return ""
	}
	return filepath.Join(filepath.Dir(found[0]), "bin", "python")
}

// round starts one model in every way.
func (b *bench) round(s *subject) error {
	if err := b.own(s); err != nil || b.python == "" {
		return err
	}
	return b.peers(s)
}

// own starts the program twice: without a kept plan and with one.
func (b *bench) own(s *subject) error {
	if err := os.RemoveAll(b.cache); err != nil {
		return err
	}
	for _, second := range []bool{false, true} {
		took, out, err := b.start("run", s.file, "--json")
		if err != nil {
			return err
		}
		var told struct {
			Load   float64 `json:"load_ms"`
			Run    float64 `json:"run_ms"`
			Cached bool    `json:"cached"`
		}
		if err := json.Unmarshal(out, &told); err != nil {
			return fmt.Errorf("%w in %q", err, out)
		}
		if told.Cached != second {
			return fmt.Errorf("second start: %v, and the plan from the cache: %v", second,
				told.Cached)
		}
		if !second {
			s.first = append(s.first, took)
			continue
		}
		s.second, s.load, s.run = append(s.second, took), append(s.load, told.Load),
			append(s.run, told.Run)
	}
	return nil
}

// peers starts the peer with the model as it is and as the peer has optimised it.
func (b *bench) peers(s *subject) error {
	for _, optimised := range []bool{false, true} {
		took, err := b.peer(s, optimised)
		if err != nil {
			return err
		}
		if optimised {
			s.peerSecond = append(s.peerSecond, took)
		} else {
			s.peerFirst = append(s.peerFirst, took)
		}
	}
	return nil
}

// start runs the program and returns the milliseconds to the first byte of its output, and the
// output.
func (b *bench) start(args ...string) (took float64, out []byte, err error) {
	c := exec.Command(b.binary, args...)
	c.Env = append(os.Environ(), cache.EnvDir+"="+b.cache)
	var talk strings.Builder
	c.Stderr = &talk
	pipe, err := c.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	if err := c.Start(); err != nil {
		return 0, nil, err
	}
	first := make([]byte, 1)
	_, err = io.ReadFull(pipe, first)
	took = float64(time.Since(began)) / float64(time.Millisecond)
	rest, restErr := io.ReadAll(pipe)
	if err := errors.Join(err, restErr, c.Wait()); err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, talk.String())
	}
	return took, append(first, rest...), nil
}

// peer times ONNX Runtime. The first call for a model also saves the optimised one.
func (b *bench) peer(s *subject, optimised bool) (float64, error) {
	file, mode := s.file, "plain"
	if optimised {
		file, mode = s.optimised, "optimised"
		if _, err := os.Stat(file); err != nil {
			if _, err := b.runPeer("save", s.file, file); err != nil {
				return 0, err
			}
		}
	}
	var told struct {
		MS float64 `json:"ms"`
	}
	out, err := b.runPeer(mode, file)
	if err == nil {
		err = json.Unmarshal(out, &told)
	}
	return told.MS, err
}

func (b *bench) peerVersion() (string, error) {
	out, err := b.runPeer("version")
	return strings.TrimSpace(string(out)), err
}

func (b *bench) runPeer(args ...string) ([]byte, error) {
	c := exec.Command(b.python, append([]string{b.script}, args...)...)
	var talk strings.Builder
	c.Stderr = &talk
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s peer.py %s: %w: %s", b.python, strings.Join(args, " "), err,
			talk.String())
	}
	return out, nil
}

// loadAverage is that of the last minute, 0 where the system does not tell.
func loadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	_, _ = fmt.Sscan(string(b), &load)
	return load
}
