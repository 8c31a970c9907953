// Command bench measures the scheduler with weir's plug-in in a real control plane, beside the
// stock one in the same run:
//
//	kube/e2e/run up -kwok -scheduler none        # prints a file; leave it running
//	cd kube/scheduler && go build -o /tmp/ws .
//	go run ./bench -kubeconfig FILE -scheduler /tmp/ws -stock kube-scheduler
//	    -only rate       fractional pods bound a second, 500 nodes with 8 devices, against stock:
//	                     of pods that wait
//	    -only arrivals   the same while the pods are being made, which the server pays for too
//	    -only gang       a gang of 512 pods on 512 nodes
//	    -only preempt    from an opportunistic victim's end to a high-priority pod that runs
//	    -only policy     openb's default trace: allocation against the same policy's simulation
//
// All but the nodes is real: pods and nodes are played by kwok. Rates are of one machine that runs
// all of it; compare within a run. One scheduler runs at a time, and each has the same client: the
// time of processors that scheduler and server took goes with each rate, as those share the
// machine. The exit code is 1 when a bound is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	stock      string // program
	rounds     int
	pods       int
	full       float64
	early      string
	trace      string
	verbose    bool

	client *kubernetes.Clientset
	server string // its address
	dir    string
	result result

	templates map[shape]string // names of those that are there
}

func main() {
	b := &bench{result: result{Date: time.Now().UTC().Format(time.DateOnly),
		Values: map[string]any{}}, templates: map[shape]string{}}
	flag.StringVar(&b.kubeconfig, "kubeconfig", "", "of an administrator of the control plane")
	flag.StringVar(&b.scheduler, "scheduler", "", "weir-scheduler, as go build makes it")
	flag.StringVar(&b.stock, "stock", "", "kube-scheduler, as kube/e2e/build makes it, for rates")
	only := flag.String("only", "rate", "rate, arrivals, gang, preempt or policy")
	flag.IntVar(&b.rounds, "rounds", 5, "how often each is measured; the median counts")
	flag.IntVar(&b.pods, "pods", 1000, "pods of a round of rate")
	flag.Float64Var(&b.full, "full", 0, "which part of each device is given away before rates "+
		"are measured: 0, 0.25, 0.5 or 0.75")
	flag.StringVar(&b.early, "early", "", "the chart's finalizer.yaml: rates are measured of the "+
		"stock scheduler without and with it, and of weir's with it; all else is with it")
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
	b.server = config.Host
	measure, ok := map[string]func(context.Context) error{"rate": b.rate, "arrivals": b.arrivals,
		"gang": b.gang, "preempt": b.preempt, "policy": b.policy}[only]
	if !ok {
		return fmt.Errorf("-only %s: there are rate, arrivals, gang, preempt and policy", only)
	}
	if err := b.empty(ctx); err != nil {
		return err
	}
	if err := b.chart(ctx, true); err != nil {
		return err
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

// empty is an error where the cluster has pods: they would be counted.
func (b *bench) empty(ctx context.Context) error {
	pods, err := b.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if n := len(pods.Items); n > 0 {
		return fmt.Errorf("%s has %d pods, such as %s: delete them, or begin a cluster anew",
			b.server, n, pods.Items[0].Name)
	}
	return nil
}

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
