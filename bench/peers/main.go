// Command peers measures weir up beside the servers that speak the same protocol: NVIDIA's Triton
// Inference Server, of the pytriton wheel, and MLServer. Each serves an identity in a process of
// its own, and is asked for 64 numbers by one client alone and by eight at a time, over HTTP and
// gRPC, in turn in each round:
//
//	go run ./bench/peers               # about two minutes, after the wheels were fetched once
//	go run ./bench/peers -json > bench/results/DATE-peers.json
//
// The clients are part of what is measured, on the same cores; medians of rounds are quoted. Over
// HTTP Triton and weir are asked with binary data, and MLServer, which has none, and weir in JSON.
// Triton's wheel has one backend, which computes in Python: what it spends there is in its figures.
// The exit code is 1 when a bound is missed, and 3 where the wheels cannot be fetched.
package main

import (
	"bufio"
	"context"
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
	"strings"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server/traffic"
)

// command is how messages begin.
const command claims.Command = "peers"

type results struct {
	Date      string             `json:"date"`
	Machine   string             `json:"machine"`
	Processor roofline.Processor `json:"processor"`
	Cores     int                `json:"cores"`
	Go        string             `json:"go"`
	Foreign   float64            `json:"foreign_cores"`
	Versions  map[string]string  `json:"versions"`
	Rounds    []map[string]asked `json:"rounds"` // by server and way
	Claims    claims.Book        `json:"claims"`
}

// asked is what came of asking a server by one way.
type asked struct {
	One       traffic.Times `json:"one_ms"` // one client
	PerSecond float64       `json:"eight_per_s"`
	MB        float64       `json:"resident_mb"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("duration", time.Second, "of each part of a round")
	flag.Parse()
	r := results{Date: time.Now().UTC().Format("2006-01-02"), Machine: cpuinfo.ModelName(),
		Processor: roofline.Identify(), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Versions: map[string]string{}}
	noise := claims.Start()
	command.Check(r.measure(*rounds, *length))
	r.Foreign = noise.Foreign()
	command.Finish(r, *asJSON, r.Claims.Judge(os.Stderr))
}

func (r *results) measure(rounds int, length time.Duration) error {
	dir, err := os.MkdirTemp("", "weir-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var servers []*peer
	defer func() {
		for _, p := range servers {
			p.end()
		}
	}()
	for _, begin := range []func(string) (*peer, error){weir, python("triton"),
		python("mlserver")} {
		p, err := begin(dir)
		if err != nil {
			return err
		}
		servers = append(servers, p)
		r.Versions[p.Name] = p.Version
		if err := p.open(); err != nil {
			return err
		}
	}
	for range rounds {
		now := map[string]asked{}
		for _, way := range []string{"binary over HTTP", "JSON over HTTP", "gRPC"} {
			for _, p := range servers {
				if p.Name == "mlserver" && way == "binary over HTTP" {
					continue
				}
				a, err := p.ask(way, length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", p.Name, way, err)
				}
				now[p.Name+", "+way] = a
			}
		}
		r.Rounds = append(r.Rounds, now)
		r.judge(now)
	}
	return nil
}

// judge holds a round against what is promised.
func (r *results) judge(now map[string]asked) {
	for _, c := range []struct {
		peer, way string
		times     float64
	}{{"triton", "binary over HTTP", 2}, {"triton", "gRPC", 2}, {"mlserver", "JSON over HTTP", 10},
		{"mlserver", "gRPC", 10}} {
		ours, theirs := now["weir, "+c.way], now[c.peer+", "+c.way]
		r.Claims.Check("answers a second over "+c.peer+"'s, "+c.way,
			ours.PerSecond/theirs.PerSecond, c.times, false)
		r.Claims.Check("p50 of one client over "+c.peer+"'s, "+c.way,
			ours.One.P50/theirs.One.P50, 1, true)
	}
}

// peer is a server in a process of its own.
type peer struct {
	Name, Version, HTTP, GRPC string

	process *exec.Cmd
	stdin   io.Closer
	ways    map[string]traffic.Ask
	ends    []func()
}

func (p *peer) end() {
	for _, f := range p.ends {
		f()
	}
	_ = p.stdin.Close() // which ends the others
	if p.Name == "weir" {
		_ = p.process.Process.Signal(os.Interrupt)
	}
	_ = p.process.Wait()
}

// start begins a process that says in JSON where it answers.
func (p *peer) start(name string, args ...string) error {
	p.process = exec.Command(name, args...)
	p.process.Stderr = os.Stderr
	in, err := p.process.StdinPipe()
	if err != nil {
		return err
	}
	p.stdin = in
	out, err := p.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.process.Start(); err != nil {
		return err
	}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(p); err == nil {
		return nil
	}
	_ = in.Close()
	err = p.process.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == 3 {
		os.Exit(3)
	}
	return fmt.Errorf("%s ended before it answered: %w", name, err)
}

// weir builds weir and serves the identity with it.
func weir(dir string) (*peer, error) {
	g, err := graph.Parse(`graph "identity" {
  opset "" 17
  input %x: float32[n]
  %y: float32[n] = Identity@17 (%x)
  output %y
}`)
	if err != nil {
		return nil, err
	}
	version := filepath.Join(dir, "models", "identity", "1")
	if err := os.MkdirAll(version, 0o755); err != nil {
		return nil, err
	}
	if err := onnx.WriteFile(filepath.Join(version, "model.onnx"), g,
		onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "weir")
	build := exec.Command("deploy/static.sh", binary)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: run this from the module's root: %s", build, err,
			out)
	}
	p := &peer{Name: "weir"}
	err = p.start(binary, "up", "--json", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--metrics", "", "--models", filepath.Join(dir, "models"))
	p.HTTP = strings.TrimPrefix(p.HTTP, "http://")
	return p, err
}

// python serves the identity with a server of another's.
func python(name string) func(string) (*peer, error) {
	return func(string) (*peer, error) {
		p := &peer{}
		return p, p.start("python3", filepath.Join("bench", "peers", "peer.py"), name)
	}
}

// ask asks by one way.
func (p *peer) ask(way string, length time.Duration) (a asked, err error) {
	run := func(clients int, length time.Duration) (*traffic.Result, error) {
		var failed error
		res, err := traffic.Run(context.Background(), traffic.Plan{Clients: clients,
			Duration: length, Timeout: time.Minute}, p.ways[way],
			func(err error) (string, bool) { failed = err; return "failed", false })
		return res, errors.Join(err, failed)
	}
	one, err := run(1, length/2)
	if err != nil {
		return a, err
	}
	many, err := run(8, length)
	if err != nil {
		return a, err
	}
	return asked{one.Latency, many.PerSecond, p.resident()}, nil
}

// resident is how many MB a process and those that it began have in memory; what several of them
// share counts for each.
func (p *peer) resident() float64 {
	children := map[string][]string{}
	size := map[string]float64{}
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid := filepath.Base(filepath.Dir(path))
		var parent string
		for line := range strings.Lines(string(text)) {
			var kb float64
			if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
				size[pid] = kb / 1e3
			}
			_, _ = fmt.Sscanf(line, "PPid: %s", &parent)
		}
		children[parent] = append(children[parent], pid)
	}
	list, sum := []string{fmt.Sprint(p.process.Process.Pid)}, 0.0
	for len(list) > 0 {
		sum += size[list[0]]
		list = append(list[1:], children[list[0]]...)
	}
	return sum
}
