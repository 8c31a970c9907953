// Command weir-node is weir on a node of a Kubernetes cluster: "run" is the driver of devices that
// serves the kubelet, "hold" the hook that holds a container to its part of the node's CPU, and
// "install" puts both where the host finds them. "why" and "short" run once in a cluster: one says
// of pods that wait for devices why, the other makes claim templates for pods that ask by
// annotations.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/node/plugin"
	"github.com/weirgpu/weir/kube/node/short"
	"github.com/weirgpu/weir/kube/node/why"
	"github.com/weirgpu/weir/share"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "weir-node:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	if len(args) == 0 {
		return errors.New("want run, hold, install, why or short: weir-node run --help shows " +
			"the flags")
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "hold":
		return hold(args[1:])
	case "install":
		return install(args[1:])
	case "why":
		return explain(args[1:])
	case "short":
		return shorten(args[1:])
	}
	return fmt.Errorf("%s: want run, hold, install, why or short", args[0])
}

// hold is called by the container runtime with the container's state on standard input.
func hold(args []string) error {
	f := flag.NewFlagSet("hold", flag.ContinueOnError)
	memory := f.Int64("memory", 0, "most memory in bytes")
	limit := f.Int("limit", 0, "most of the processors' time, in thousandths")
	processors := f.Int("processors", runtime.NumCPU(), "how many there are")
	if err := f.Parse(args); err != nil {
		return err
	}
	return dra.Hold("", os.Stdin, share.Bytes(*memory), *limit, *processors)
}

// settings are the flags of run.
type settings struct {
	plugin.Options
	kubeconfig, cpu, hook, runtime string
}

func (s *settings) parse(args []string) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	f.StringVar(&s.NodeName, "node-name", os.Getenv("NODE_NAME"), "name of the node")
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "of the API server (default: that of the pod)")
	kubelet := f.String("kubelet", "/var/lib/kubelet", "the kubelet's folder")
	f.StringVar(&s.CDI, "cdi", "/var/run/cdi", "folder of CDI specifications")
	f.StringVar(&s.runtime, "runtime", agent.RuntimeDir(false), "the agent's runtime folder")
	f.IntVar(&s.Node.UID, "agent-uid", os.Getuid(), "the agent's user")
	f.StringVar(&s.Node.Shim, "shim", "", "the library for preloading, as a path of the host")
	f.StringVar(&s.Node.Vendor, "vendor-cdi", "",
		"CDI kind that brings the driver of real GPUs into containers, such as nvidia.com/gpu")
	f.StringVar(&s.Node.FakeDriver, "fake-driver", "", "folder of the fake driver")
	f.StringVar(&s.Node.FakeState, "fake-state", "", "folder of the fake driver's devices")
	f.StringVar(&s.cpu, "cpu-memory", "", "memory that claims of the node's CPU may have "+
		"together, such as 16GiB (default: the CPU is not offered)")
	f.StringVar(&s.hook, "hook", "", "this program, as a path of the host, for claims of the CPU")
	f.DurationVar(&s.Every, "every", 5*time.Second, "how often the agent is looked at")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.Dir = filepath.Join(*kubelet, "plugins", dra.DriverName)
	s.Registry = filepath.Join(*kubelet, "plugins_registry")
	s.Node.Runtime, s.Node.Hook, s.Agent = s.runtime, s.hook, dra.Local{Dir: s.runtime}
	return s.check()
}

// check refuses what cannot work, and describes the CPU.
func (s *settings) check() error {
	switch {
	case s.NodeName == "":
		return errors.New("--node-name, or NODE_NAME: want the name of the node")
	case s.Node.Shim == "":
		return errors.New("--shim: want the library that containers preload")
	case s.Every <= 0:
		return fmt.Errorf("--every %v: want a time above 0", s.Every)
	case s.cpu == "":
		return nil
	case s.hook == "":
		return errors.New("--cpu-memory without --hook: nothing would hold containers to it")
	}
	n, err := share.ParseBytes(s.cpu)
	if err != nil || n <= 0 {
		return fmt.Errorf("--cpu-memory %s: want a size such as 16GiB", s.cpu)
	}
	s.CPU = device.Info{ID: "cpu:0", Kind: device.CPU, Name: runtime.GOARCH,
		MemoryBytes: int64(n), Units: runtime.NumCPU()}
	return nil
}

func run(args []string) error {
	var s settings
	if err := s.parse(args); err != nil {
		return err
	}
	s.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	s.GPUs = func() []device.Info {
		infos, err := nvml.Discover()
		if err != nil {
			s.Log.Debug("no topology of GPUs", "error", err)
		}
		return infos
	}
	var err error
	if s.Client, err = client(s.kubeconfig); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o750); err != nil {
		return err
	}
	if err := os.MkdirAll(s.CDI, 0o755); err != nil {
		return err
	}
	// Containers have it mounted, whether anybody has used a device before or not.
	if s.Node.FakeState != "" {
		if err := os.MkdirAll(s.Node.FakeState, 0o777); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return plugin.Run(ctx, s.Options)
}

// client speaks to the API server of a kubeconfig, or else of the pod.
func client(kubeconfig string) (kubernetes.Interface, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return c, nil
}

// explain says of pods that wait why they do.
func explain(args []string) error {
	f := flag.NewFlagSet("why", flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "of the API server (default: that of the pod)")
	every := f.Duration("every", 5*time.Second, "how often pods are looked at")
	again := f.Duration("again", 5*time.Minute, "after how long the same is said again")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *every <= 0 || *again <= 0 {
		return fmt.Errorf("why: --every %v, --again %v: want times above 0", *every, *again)
	}
	c, err := client(*kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return why.Run(ctx, why.Options{Client: c, Every: *every, Again: *again,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// shorten makes the claim templates of pods that ask by annotations.
func shorten(args []string) error {
	f := flag.NewFlagSet("short", flag.ContinueOnError)
	kubeconfig := f.String("kubeconfig", "", "of the API server (default: that of the pod)")
	every := f.Duration("every", 5*time.Second, "how often what failed is tried again")
	unused := f.Duration("unused", time.Minute, "for how long what nobody waits for is kept")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *every <= 0 || *unused < 0 {
		return fmt.Errorf("short: --every %v, --unused %v: want times above 0", *every, *unused)
	}
	c, err := client(*kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return short.Run(ctx, short.Options{Client: c, Every: *every, Unused: *unused,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}
