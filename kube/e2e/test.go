package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgpu/weir/kube/e2e/cluster"
)

// settings are the flags.
type settings struct {
	restarts int
	window   time.Duration
	source   string
	keep     bool
	plain    bool // without a node
}

// patience is how long anything may take that is waited for. On a machine with nothing else to do
// it takes a second or two.
const patience = 5 * time.Minute

// tester goes through what is held.
type tester struct {
	settings
	dir     string
	parts   parts
	cluster *cluster.Cluster
	client  *cluster.Client
	node    *cluster.Node
	began   time.Time
	// The eight pods before the driver was first killed, and what they had done then and after it
	// was last killed.
	atFirst       map[string]podItem
	before, after map[string]progress
}

// steps are what is held, in an order in which each leaves what the next needs.
var steps = []struct {
	name  string
	plain bool // needs no node
	run   func(*tester, context.Context) error
}{
	{"a claim that is wrong is made before weir is", true, (*tester).older},
	{"the API server takes what the chart makes", true, (*tester).apply},
	{"what cannot be is refused at admission", true, (*tester).refused},
	{"a claim from before goes", true, (*tester).olderGoes},
	{"a new claim has its finalizer, and goes if nobody had it", true, (*tester).finalized},
	{"annotations are a claim at admission, or are refused", true, (*tester).annotated},
	{"weir runs on the node, and publishes its devices", false, (*tester).installed},
	{"8 pods on 2 devices have their memory to the byte", false, (*tester).memory},
	{"a claim that can never fit waits, and an event says why", false, (*tester).never},
	{"they have their shares while the driver is killed", false, (*tester).shares},
	{"no pod was harmed", false, (*tester).unharmed},
	{"a node whose agent is gone takes nothing new, and says so", false, (*tester).agentGone},
	{"what the driver refuses is in an event of the pod", false, (*tester).told},
	{"what pods had comes back, to the byte", false, (*tester).back},
	{"a claim goes from pod to pod, and with its pod", true, (*tester).handed},
	{"a pod has a whole device by the extended resource", false, (*tester).extended},
	{"a pod has a part of a device by annotations", false, (*tester).short},
	{"weir goes, and leaves nothing of claims", false, (*tester).uninstall},
}

// test builds the parts, starts the cluster and goes through the steps. It ends at the first that
// is missed, as the others need what it leaves.
func test(ctx context.Context, s *settings) (err error) {
	t := &tester{settings: *s, began: time.Now()}
	if t.dir, err = os.MkdirTemp("/tmp", "weir-e2e-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	if err := t.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.cluster.Close()) }()
	for _, step := range steps {
		if t.plain && !step.plain {
			continue
		}
		at := time.Now()
		if err := step.run(t, ctx); err != nil {
			fmt.Printf("MISSED %s: %v\n", step.name, err)
			t.wait(ctx)
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("held   %s (%.1f s)\n", step.name, time.Since(at).Seconds())
	}
	what := "the GPUs are FAKE, the rest is real"
	if t.plain {
		what = "WITHOUT A NODE: no pod ran"
	}
	fmt.Printf("all held in %.0f s; %s\n", time.Since(t.began).Seconds(), what)
	t.wait(ctx)
	return nil
}

// wait leaves all as it is, if that was asked for.
func (t *tester) wait(ctx context.Context) {
	if t.keep {
		fmt.Fprintln(os.Stderr, "kubeconfig:", t.cluster.Kubeconfig)
		<-ctx.Done()
	}
}

// start builds the parts beside the start of the control plane, and makes this machine a node.
func (t *tester) start(ctx context.Context) (err error) {
	if t.plain {
		t.cluster, err = cluster.Start(ctx, cluster.Options{Dir: t.dir, Loopback: true})
		if err == nil {
			t.client = t.cluster.Client
		}
		return err
	}
	folder := filepath.Join(t.dir, "parts")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	built := make(chan error, 1)
	go func() {
		var err error
		t.parts, err = build(ctx, t.source, folder)
		built <- err
	}()
	dir := filepath.Join(t.dir, "k")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	t.cluster, err = cluster.Start(ctx, cluster.Options{Dir: dir})
	if e := <-built; e != nil || err != nil {
		return errors.Join(err, e)
	}
	t.client = t.cluster.Client
	t.say("control plane of Kubernetes %s, and weir built", cluster.Version)
	images, err := t.parts.images()
	if err == nil {
		t.node, err = t.cluster.Node(ctx, images, pauseImage)
	}
	if err != nil {
		return errors.Join(err, t.cluster.Close())
	}
	t.say("a node of kubelet and containerd is ready")
	return nil
}

// say prints a fact with the time since the beginning.
func (t *tester) say(format string, args ...any) {
	fmt.Printf("       %5.1f s  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

func (t *tester) until(ctx context.Context, what string, is func() (bool, error)) error {
	return t.cluster.Until(ctx, what, patience, is)
}
