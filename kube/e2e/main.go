// Command e2e holds what docs/kubernetes.md says against a real Kubernetes on this machine: API
// server, scheduler, controller manager, kubelet, containerd and runc, with weir installed by its
// chart and pods on simulated GPUs. kube/e2e/build makes the binaries once; kube/e2e/run runs this:
//
//	kube/e2e/run                  # all of it; what is missed ends it with 1
//	kube/e2e/run -restarts 100    # the driver is killed and started again so often
//	kube/e2e/run up -kwok         # a control plane to work with, until it is interrupted
//
// The device is simulated and labelled fake; all else is real. Exit code 3 says that the binaries
// are not there, or that this machine cannot be a node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirgpu/weir/kube/e2e/cluster"
)

// Exit codes beside 0 and 1.
const (
	usage   = 2
	missing = 3
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == cluster.Runc {
		fmt.Fprintln(os.Stderr, cluster.AsRunc(os.Args[2:]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "e2e:", err)
	switch {
	case errors.Is(err, cluster.ErrNotBuilt) || errors.Is(err, cluster.ErrNoNode):
		os.Exit(missing)
	case errors.Is(err, errUsage):
		os.Exit(usage)
	}
	os.Exit(1)
}

var errUsage = errors.New("wrong arguments")

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "up" {
		return up(ctx, args[1:])
	}
	var s settings
	f := flag.NewFlagSet("e2e", flag.ContinueOnError)
	f.IntVar(&s.restarts, "restarts", 10, "how often the driver is killed while pods run")
	f.DurationVar(&s.window, "window", 15*time.Second, "for how long shares are measured, at least")
	f.StringVar(&s.source, "source", ".", "root of weir's source")
	f.BoolVar(&s.plain, "no-node", false, "only what needs no node, kubelet or containers")
	f.BoolVar(&s.keep, "keep", false, "leave all as it is at the end, until interrupted")
	if err := f.Parse(args); err != nil || f.NArg() > 0 || s.restarts < 0 {
		return fmt.Errorf("%w: e2e -h shows what there is", errUsage)
	}
	bin, err := cluster.Where("")
	if err != nil {
		return err
	}
	if s.plain {
		return test(ctx, &s)
	}
	// What needs no node is held where there can be none, too.
	if err := cluster.CanBeNode(bin); err != nil {
		s.plain = true
		return errors.Join(test(ctx, &s), err)
	}
	return test(ctx, &s)
}

// up starts a control plane and, if it is asked to, nodes that kwok plays, and waits.
func up(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("up", flag.ContinueOnError)
	nodes := f.Bool("kwok", false, "have kwok play the kubelets of all nodes that are made")
	scheduler := f.String("scheduler", "", "program in place of Kubernetes' scheduler; "+
		"none: there is none")
	profile := f.String("profile", "", "file of YAML that its configuration has besides")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return fmt.Errorf("%w: e2e up -h shows what there is", errUsage)
	}
	o := cluster.Options{Loopback: true, Scheduler: *scheduler}
	if *profile != "" {
		text, err := os.ReadFile(*profile)
		if err != nil {
			return err
		}
		o.Profile = string(text)
	}
	dir, err := os.MkdirTemp("", "weir-k8s-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.Dir = dir
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if *nodes {
		if err := c.Kwok(ctx); err != nil {
			return err
		}
	}
	fmt.Println(c.Kubeconfig)
	<-ctx.Done()
	return nil
}
