// Command fuzz sends a server of package server what no client sends: bodies of HTTP, messages of
// gRPC and bytes of connections that were right until something in them was changed.
//
//	go run ./server/peer/fuzz [-n 100000] [-seed 1]
//	go run ./server/peer/fuzz -patterns
//
// It fails if an answer is that the server is at fault (500, INTERNAL), if the server logs an
// error, which it does of each panic, if memory stays that no request has any more, or if there
// was ever more of it than a bound. Models that it unloads are loaded again meanwhile. With
// -patterns it prints the server's endpoints, for schema.py beside it.
//
// Meet first: http.go and grpc.go, which have the cases, and mutate.go.
//
// Concurrency: as many clients ask at once as there are cores.
//
// What it refuses: nothing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/rpc"
)

func main() {
	n := flag.Int("n", 100_000, "how many cases")
	seed := flag.Uint64("seed", 1, "of the random numbers")
	patterns := flag.Bool("patterns", false, "print the endpoints, and do nothing else")
	flag.Parse()
	do := func() error { return run(*n, *seed) }
	if *patterns {
		do = show
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// kept is the most memory that may stay once all is answered, beyond what there was before.
const kept = 64 << 20

// highest is the most memory that there may ever be, with that of the clients.
const highest = 768 << 20

// The times between looks at the memory, and between loads of a model.
const (
	lookEvery = 20 * time.Millisecond
	loadEvery = 5 * time.Millisecond
)

// show prints the endpoints.
func show() error {
	s, err := server.New(server.Options{Log: slog.New(slog.DiscardHandler), Memory: "/fuzz-"})
	if err != nil {
		return err
	}
	for _, p := range s.Patterns() {
		fmt.Println(p)
	}
	return s.Close()
}

// texts are the models that are asked.
var texts = map[string]string{
	"simple": `graph "simple" {
	  opset "" 17
	  input %INPUT0: int32[N,4]
	  input %INPUT1: string[N,M]
	  %OUTPUT0: int32[N,4] = Neg@13 (%INPUT0)
	  %OUTPUT1: string[N,M] = Identity@16 (%INPUT1)
	  output %OUTPUT0
	  output %OUTPUT1
	}`,
	"rows": `graph "rows" {
	  opset "" 17
	  meta "decoupled" "true"
	  input %INPUT0: float32[N]
	  %OUTPUT0: float32[N] = Neg@13 (%INPUT0)
	  output %OUTPUT0
	}`,
	"counter": `graph "counter" {
	  opset "" 17
	  meta "sequence.start" "START"
	  meta "sequence.state" "before=after"
	  input %INPUT0: int32[N,1]
	  input %START: int32[N,1]
	  input %before: int32[N,1]
	  %sum: int32[N,1] = Add@14 (%INPUT0, %START)
	  %after: int32[N,1] = Add@14 (%sum, %before)
	  %OUTPUT0: int32[N,1] = Neg@13 (%after)
	  output %OUTPUT0
	  output %after
	}`,
}

// target is the server that is asked, and what came of it.
type target struct {
	server     *server.Server
	http, grpc string // addresses
	logged     atomic.Int64
	done       atomic.Int64
	most       uint64 // bytes of memory

	mu      sync.Mutex
	answers map[string]int // by status
	faults  []string
}

func run(n int, seed uint64) error {
	t := &target{answers: map[string]int{}}
	stop, err := t.begin()
	if err != nil {
		return err
	}
	defer stop()
	before := memory()
	ctx, end := context.WithCancel(context.Background())
	var wait, beside sync.WaitGroup
	beside.Go(func() { t.look(ctx) })
	beside.Go(func() { t.load(ctx) })
	began := time.Now()
	for i := range runtime.GOMAXPROCS(0) {
		wait.Go(func() { t.ask(rand.New(rand.NewPCG(seed, uint64(i))), int64(n)) })
	}
	wait.Wait()
	took := time.Since(began)
	end()
	beside.Wait()
	time.Sleep(time.Second) // connections that were cut off are noticed
	after := memory()
	fmt.Printf("%d cases in %v; memory %d MiB before, %d MiB at most, %d MiB after\n", n,
		took.Round(time.Second), before>>20, t.most>>20, after>>20)
	for _, status := range slices.Sorted(maps.Keys(t.answers)) {
		fmt.Printf("%8d  %s\n", t.answers[status], status)
	}
	return t.verdict(before, after)
}

// memory is what is held once nothing is left over.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// look remembers the most memory that there is, until ctx is done.
func (t *target) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.most = max(t.most, m.HeapInuse+m.StackInuse)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// load loads models that are not served, until ctx is done.
func (t *target) load(ctx context.Context) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		for name := range texts {
			if ready, _ := t.server.ModelReady(name, ""); ready {
				continue
			}
			if err := t.server.LoadModel(ctx, name, nil); err != nil && ctx.Err() == nil {
				t.answered("load", true, err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// verdict says what went wrong.
func (t *target) verdict(before, after uint64) error {
	var errs []error
	for _, f := range t.faults {
		errs = append(errs, errors.New(f))
	}
	if n := t.logged.Load(); n > 0 {
		errs = append(errs, fmt.Errorf("the server logged %d errors", n))
	}
	if after > before+kept {
		errs = append(errs, fmt.Errorf("%d bytes stay, of %d that may", after-before, kept))
	}
	if t.most > highest {
		errs = append(errs, fmt.Errorf("there were %d bytes, of %d that may be", t.most, highest))
	}
	if a, err := http.Get("http://" + t.http + "/v2/health/ready"); err != nil {
		errs = append(errs, err)
	} else if a.StatusCode != http.StatusOK {
		errs = append(errs, fmt.Errorf("the server is not ready: %s", a.Status))
	}
	return errors.Join(errs...)
}

// begin starts the server.
func (t *target) begin() (stop func(), err error) {
	log := slog.New(counter{&t.logged})
	t.server, err = server.New(server.Options{Log: log, Memory: "/fuzz-"})
	if err != nil {
		return nil, err
	}
	var sources []server.Source
	for name, text := range texts {
		sources = append(sources, server.Source{Name: name, Version: 1,
			Open: func() (*weir.Model, error) { return model(text) }})
	}
	if err := t.server.LoadAll(context.Background(), sources); err != nil {
		return nil, errors.Join(err, t.server.Close())
	}
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.http, t.grpc = on.Addr().String(), calls.Addr().String()
	h := server.HTTP(t.server, log)
	g := rpc.New(rpc.Options{Server: t.server, Log: log})
	go func() { _ = t.server.Serve(on, h) }()
	go func() { _ = g.Serve(calls) }()
	return func() {
		g.Close()
		_ = errors.Join(h.Close(), t.server.Close())
	}, nil
}

func model(text string) (*weir.Model, error) {
	g, err := graph.Parse(text)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		return nil, err
	}
	return weir.Load(file.Bytes())
}

// counter is a slog.Handler that counts errors and shows the first ones.
type counter struct{ n *atomic.Int64 }

func (c counter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (c counter) Handle(_ context.Context, r slog.Record) error {
	if c.n.Add(1) <= shown {
		var s strings.Builder
		r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&s, " %v", a); return true })
		fmt.Fprintln(os.Stderr, "logged:", r.Message, s.String())
	}
	return nil
}

func (c counter) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c counter) WithGroup(string) slog.Handler { return c }

// shown is how many faults are shown.
const shown = 5

// answered counts an answer; bad: it is that the server is at fault.
func (t *target) answered(status string, bad bool, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[status]++
	if bad && len(t.faults) < shown {
		t.faults = append(t.faults, status+": "+what)
	}
}

// ask sends cases until there were n.
func (t *target) ask(rng *rand.Rand, n int64) {
	h, g := newHTTP(t), newGRPC(t)
	defer g.close()
	for t.done.Add(1) <= n {
		switch kind := rng.IntN(100); {
		case kind < 55:
			h.one(rng)
		case kind < 98:
			g.one(rng)
		default:
			t.raw(rng)
		}
	}
}
