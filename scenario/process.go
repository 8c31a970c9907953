package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// childOrder is what a child process is told on its standard input, as one line of JSON. It answers
// "ready", waits for a second line, runs, and answers with one JobResult.
type childOrder struct {
	Scenario string `json:"scenario"` // YAML with one job
	Threads  int    `json:"threads"`
	Index    int    `json:"index"`
}

// processes runs each job in a process of its own, started together, the opportunistic ones at nice
// 19: what a user has without weir.
func (r *run) processes(ctx context.Context) (*Phase, error) {
	if len(r.o.Child) == 0 {
		return nil, fmt.Errorf("%w: no command to start processes with", ErrScenario)
	}
	dir, err := os.MkdirTemp("", "weir-processes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	children := make([]*child, 0, len(r.jobs))
	defer func() {
		for _, c := range children {
			c.reap()
		}
	}()
	for i := range r.jobs {
		c, err := r.spawn(ctx, dir, i)
		if c != nil {
			children = append(children, c)
		}
		if err != nil {
			return nil, errors.Join(stopped(ctx), err)
		}
	}
	return r.finish(children), stopped(ctx)
}

// childArrival is an [Arrival], with times as YAML has them.
type childArrival struct {
	Poisson float64  `json:"poisson,omitempty"`
	Load    float64  `json:"load,omitempty"`
	Closed  int      `json:"closed,omitempty"`
	Think   string   `json:"think,omitempty"`
	Trace   []string `json:"trace,omitempty"`
}

func arrivalOf(a Arrival) childArrival {
	c := childArrival{Poisson: a.Poisson, Load: a.Load, Closed: a.Closed}
	if a.Think > 0 {
		c.Think = a.Think.String()
	}
	for _, at := range a.Trace {
		c.Trace = append(c.Trace, at.String())
	}
	return c
}

// finish lets all children run at once.
func (r *run) finish(children []*child) *Phase {
	ph := &Phase{Device: r.s.Device, Mode: Processes, Jobs: make([]JobResult, len(r.jobs))}
	began := time.Now()
	stopLive := r.liveClock(began)
	var wg sync.WaitGroup
	for i, c := range children {
		wg.Go(func() { ph.Jobs[i] = c.finish(r.jobs[i].spec) })
	}
	wg.Wait()
	stopLive()
	ph.Wall = time.Since(began)
	ph.WallS = ph.Wall.Seconds()
	return ph
}

// child is a running process.
type child struct {
	name  string // of its job
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	talk  tail // what it wrote to its standard error
	ended error
	reap  func()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is enough for the last lines of a panic.
const tailBytes = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(p), nil
}

// trouble is an error about the child, with how it ended and its last words.
func (c *child) trouble(what string, err error) error {
	c.reap()
	if c.ended != nil {
		err = c.ended
	}
	c.talk.mu.Lock()
	defer c.talk.mu.Unlock()
	return fmt.Errorf("process of job %s: %s: %w: %s", c.name, what, err,
		strings.TrimSpace(string(c.talk.text)))
}

// spawn starts a child and waits until its model is loaded.
func (r *run) spawn(ctx context.Context, dir string, i int) (*child, error) {
	order, err := r.order(dir, i)
	if err != nil {
		return nil, err
	}
	argv := r.o.Child
	if r.s.Jobs[i].Class == share.Opportunistic {
		// Linux keeps nice values by thread, so they must be in force before the Go runtime starts
		// any.
		argv = append([]string{"nice", "-n", "19"}, argv...)
	}
	c := &child{name: r.s.Jobs[i].Name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	c.cmd.Stderr = &c.talk
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.reap = sync.OnceFunc(func() { c.in.Close(); c.ended = c.cmd.Wait() })
	if err := json.NewEncoder(c.in).Encode(order); err != nil {
		return c, c.trouble("takes no order", err)
	}
	if line, err := c.out.ReadString('\n'); err != nil || line != "ready\n" {
		return c, c.trouble(fmt.Sprintf("said %q, not that it is ready", line), err)
	}
	return c, nil
}

// order writes a scenario of the one job, its model saved when it only exists in memory.
func (r *run) order(dir string, i int) (childOrder, error) {
	job := r.jobs[i].spec
	if job.Graph != nil {
		job.Model = filepath.Join(dir, strconv.Itoa(i)+".onnx")
		if err := onnx.WriteFile(job.Model, job.Graph, onnx.WriteOptions{}); err != nil {
			return childOrder{}, err
		}
	}
	inputs, err := saveInputs(&job, filepath.Join(dir, strconv.Itoa(i)))
	if err != nil {
		return childOrder{}, err
	}
	one := childScenario{Device: r.s.Device, Duration: r.s.Duration.String(),
		Seed: r.s.Seed,
		Jobs: []childJob{{
			Name: job.Name, Iterations: job.Iterations, Memory: job.Memory.String(),
			Model: job.Model, Train: job.Train,
			Precision: job.Precision,
			Arrival:   arrivalOf(job.Arrival), Inputs: inputs, Shapes: map[string]string{}}}}
	for _, p := range []*string{&one.Jobs[0].Model, &one.Jobs[0].Train} {
		if *p == "" {
			continue
		}
		if *p, err = filepath.Abs(*p); err != nil {
			return childOrder{}, err
		}
	}
	for name, s := range job.Shapes {
		one.Jobs[0].Shapes[name] = s.String()
	}
	text, err := json.Marshal(one)
	if err != nil {
		return childOrder{}, err
	}
	return childOrder{Scenario: string(text), Threads: r.Pool.Threads(), Index: i}, nil
}

// saveInputs returns the job's input files, with those that only exist in memory saved under the
// prefix.
func saveInputs(job *Job, prefix string) (map[string]string, error) {
	files := map[string]string{}
	for name, file := range job.Inputs {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		files[name] = abs
	}
	n := 0
	for name, t := range job.Given {
		n++
		form := "npy"
		if t.DType == tensor.String || t.DType.IsContainer() {
			form = "pb"
		}
		files[name] = fmt.Sprintf("%s-%d.%s", prefix, n, form)
		if err := saveInput(files[name], t); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// saveInput writes a value in the form that the path's ending names.
func saveInput(path string, t *tensor.Tensor) (err error) {
	if strings.HasSuffix(path, ".pb") {
		b, err := onnx.EncodeValue("", t)
		if err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o666)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return npy.Write(f, t)
}

// childScenario is the part of a Scenario that a child needs, as JSON, which is YAML too.
type childScenario struct {
	Device   string     `json:"device"`
	Duration string     `json:"duration"`
	Seed     uint64     `json:"seed"`
	Jobs     []childJob `json:"jobs"`
}

type childJob struct {
	Name       string            `json:"name"`
	Iterations int64             `json:"iterations"`
	Memory     string            `json:"memory"`
	Model      string            `json:"model,omitempty"`
	Train      string            `json:"train,omitempty"`
	Precision  pass.Precision    `json:"precision,omitempty"`
	Arrival    childArrival      `json:"arrival"`
	Inputs     map[string]string `json:"inputs"`
	Shapes     map[string]string `json:"shapes"`
}

// finish lets the child run and returns its result.
func (c *child) finish(spec Job) JobResult {
	var answer childAnswer
	_, err := io.WriteString(c.in, "go\n")
	if err == nil {
		err = json.NewDecoder(c.out).Decode(&answer)
	}
	if err != nil {
		line, _, _ := strings.Cut(c.trouble("gave no result", err).Error(), "\n")
		answer.Job = JobResult{Name: spec.Name, Arrival: spec.Arrival.String(),
			MemoryCapBytes: int64(spec.Memory), Status: StatusFailed,
			Error: line}
	}
	res := answer.Job
	res.Class, res.Compute, res.Limit, res.Latencies = spec.Class, spec.Compute, spec.Cap(),
		answer.Latencies
	return res
}

type childAnswer struct {
	Job       JobResult
	Latencies []time.Duration
}

// RunChild is the other side of the mode Processes: it reads its order from in and answers on out.
// cmd/weir calls it in a hidden command. by prepares the recipe of a job that trains; nil refuses
// it.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, by Trainer) error {
	lines := bufio.NewReader(in)
	var order childOrder
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &order); err != nil {
		return err
	}
	s, err := Parse(strings.NewReader(order.Scenario))
	if err != nil {
		return err
	}
	r, err := newRun(ctx, s, Options{Threads: order.Threads, Trainer: by})
	if err != nil {
		return err
	}
	defer r.close()
	stage, err := r.newStage(&Phase{Device: s.Device, Mode: Processes}, Processes, "")
	if err != nil {
		return err
	}
	defer stage.close()
	stage.add(ctx, r.jobs[0], order.Index)
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return err
	}
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	if err := stage.play(ctx); err != nil {
		return err
	}
	stage.report()
	return json.NewEncoder(out).
		Encode(childAnswer{stage.phase.Jobs[0], stage.phase.Jobs[0].Latencies})
}
