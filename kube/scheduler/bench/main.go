// Command bench measures the scheduler with weir's plug-in in a real control plane, beside the
// stock one in the same run:
//
//	kube/e2e/run up -kwok                        # prints a file; leave it running
//	cd kube/scheduler && go build -o /tmp/ws .
//	go run ./bench -kubeconfig FILE -scheduler /tmp/ws
//	    -only rate       fractional pods bound a second, 500 nodes with 8 devices, against stock
//	    -only gang       a gang of 512 pods on 512 nodes
//	    -only preempt    from an opportunistic victim's end to a high-priority pod that runs
//	    -only policy     openb's default trace: allocation against the same policy's simulation
//
// All but the nodes is real: pods and nodes are played by kwok. Rates are of one machine that runs
// all of it; compare within a run. The exit code is 1 when a bound is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// result is what is printed.
type result struct {
	Date   string         `json:"date"`
	Values map[string]any `json:"values"`
	Missed []string       `json:"missed"`
}

// bench is a run.
type bench struct {
	kubeconfig string
	scheduler  string // program
	rounds     int
	pods       int
	trace      string
	verbose    bool

	client *kubernetes.Clientset
	dir    string
	result result
}

func main() {
	b := &bench{result: result{Date: time.Now().UTC().Format(time.DateOnly),
		Values: map[string]any{}}}
	flag.StringVar(&b.kubeconfig, "kubeconfig", "", "of an administrator of the control plane")
	flag.StringVar(&b.scheduler, "scheduler", "", "weir-scheduler, as go build makes it")
	only := flag.String("only", "rate", "rate, gang, preempt or policy")
	flag.IntVar(&b.rounds, "rounds", 5, "how often each is measured; the median counts")
	flag.IntVar(&b.pods, "pods", 1000, "pods of a round of rate")
	flag.StringVar(&b.trace, "trace", "", "folder csv of the unpacked openb traces, for policy")
	flag.BoolVar(&b.verbose, "v", false, "say what is done, on stderr")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("bounds are missed")

func (b *bench) run(ctx context.Context, only string) error {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 20000, 20000
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	measure, ok := map[string]func(context.Context) error{"rate": b.rate, "gang": b.gang,
		"preempt": b.preempt, "policy": b.policy}[only]
	if !ok {
		return fmt.Errorf("-only %s: there are rate, gang, preempt and policy", only)
	}
	if err := measure(ctx); err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(b.result); err != nil {
		return err
	}
	if len(b.result.Missed) > 0 {
		return errMissed
	}
	return nil
}

// start runs weir-scheduler with arguments of the plug-in until the function that it returns is
// called.
func (b *bench) start(ctx context.Context, args any) (func(), error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, "scheduler.yaml")
	err = os.WriteFile(path, fmt.Appendf(nil, configuration, b.kubeconfig, text), 0o600)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(os.TempDir(), "weir-scheduler-bench.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.scheduler, "--config="+path, "--secure-port=0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	}, nil
}

// configuration is the shipped one with a way to the server and arguments of the plug-in.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
percentageOfNodesToScore: 100
profiles:
  - schedulerName: weir-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Weir, weight: 10000}]
        disabled: [{name: DynamicResources}, {name: PrioritySort}]
      postFilter: {enabled: [{name: Weir}]}
    pluginConfig: [{name: Weir, args: %s}]
`

func (b *bench) say(format string, args ...any) {
	if b.verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// must notes a bound that is missed.
func (b *bench) must(holds bool, format string, args ...any) {
	if !holds {
		b.result.Missed = append(b.result.Missed, fmt.Sprintf(format, args...))
	}
}
