package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// NodeName is the name of this machine in the cluster.
const NodeName = "weir-e2e"

// ErrNoNode: this machine cannot be a node.
var ErrNoNode = errors.New("this machine cannot be a node")

var nodeUser = user{"system:node:" + NodeName, "system:nodes"}

// Node is this machine as a real node: a kubelet and a containerd with all that is theirs in the
// cluster's folder.
type Node struct {
	c *Cluster
	// Kubelet is the kubelet's folder, CDI that of CDI specifications, Logs that of what pods say.
	Kubelet, CDI, Logs string
	socket             string
}

// CanBeNode says why this machine cannot be a node; nil if it can, as far as can be said before.
func CanBeNode(bin string) error {
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: it takes root", ErrNoNode)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	if err := syscall.Unshare(0); err != nil {
		return fmt.Errorf("%w: %w", ErrNoNode, err)
	}
	out, err := exec.Command("unshare", "--mount", "--net", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: unshare: %w: %s", ErrNoNode, err, out)
	}
	c := Cluster{bin: bin}
	if err := c.has("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "bridge",
		"loopback", "host-local"); err != nil {
		return err
	}
	_, err = c.runc()
	return err
}

// runc is the machine's own, or else the one that was built.
func (c *Cluster) runc() (string, error) {
	if path, err := exec.LookPath("runc"); err == nil {
		return path, nil
	}
	if err := c.has("runc"); err != nil {
		return "", fmt.Errorf("%w: no runc on the path and none built: %w", ErrNoNode, err)
	}
	return c.binary("runc"), nil
}

// Node makes this machine a node with these images, and waits until it is ready. Sandbox is the
// name of the image among them that holds a pod's namespaces.
func (c *Cluster) Node(ctx context.Context, images []Image, sandbox string) (*Node, error) {
	n := &Node{c: c, Kubelet: filepath.Join(c.dir, "kubelet"), CDI: filepath.Join(c.dir, "cdi"),
		Logs: filepath.Join(c.dir, "pods"), socket: filepath.Join(c.dir, "containerd.sock")}
	for _, d := range []string{n.Kubelet, n.CDI, n.Logs, filepath.Join(c.dir, "cni")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := n.containerd(ctx, sandbox); err != nil {
		return nil, err
	}
	for i := range images {
		if err := n.load(ctx, &images[i]); err != nil {
			return nil, err
		}
	}
	if err := n.kubelet(); err != nil {
		return nil, err
	}
	return n, c.Until(ctx, "a node that is ready", ready, func() (bool, error) {
		return c.NodeReady(ctx, NodeName)
	})
}

// NodeReady reports whether a node says that it is ready.
func (c *Cluster) NodeReady(ctx context.Context, name string) (bool, error) {
	var n struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	err := c.Client.Get(ctx, "/api/v1/nodes/"+name, &n)
	if err != nil {
		return false, err
	}
	for _, s := range n.Status.Conditions {
		switch {
		case s.Type != "Ready":
		case s.Status == "True":
			return true, nil
		default:
			return false, errors.New(s.Message)
		}
	}
	return false, errors.New("it has not said anything")
}

func (n *Node) containerd(ctx context.Context, sandbox string) error {
	c := n.c
	runtime, err := c.runc()
	if err != nil {
		return err
	}
	// runc that was built has no libseccomp, and Kubernetes asks for a profile for each sandbox.
	if strings.HasPrefix(runtime, c.bin) {
		if runtime, err = n.withoutProfiles(runtime); err != nil {
			return err
		}
	}
	if _, err := c.write("cni/10-weir.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0",
"name": "weir", "plugins": [{"type": "bridge", "bridge": %q, "isGateway": true, "ipam": {
"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]],
"routes": [{"dst": "0.0.0.0/0"}]}}]}`, c.net.bridge, filepath.Join(c.dir, "ipam"),
		c.net.pods)); err != nil {
		return err
	}
	config, err := c.write("containerd.toml", fmt.Sprintf(containerdConfig,
		filepath.Join(c.dir, "images"), filepath.Join(c.dir, "state"), n.socket, sandbox, n.CDI,
		c.binary("containerd-shim-runc-v2"), runtime, filepath.Join(c.bin, "bin"),
		filepath.Join(c.dir, "cni")))
	if err != nil {
		return err
	}
	p, err := c.begin("containerd", "--config", config)
	if err != nil {
		return err
	}
	c.undo = append(c.undo, n.sweep)
	return c.Until(ctx, "a containerd that answers", ready, func() (bool, error) {
		_, err := n.ctr(ctx, "version")
		return err == nil, firstError(c.failed(p), err)
	})
}

// containerdConfig is its configuration of version 3 (containerd, docs/cri/config.md), with places
// for: folder of images, folder of state, socket, image of the sandbox, folder of CDI, what holds
// containers, runtime, folders of CNI's programs and of its configuration.
//
// Processes of containers keep the score by which the kernel chooses what to end: where the machine
// does not let its root raise it, runc would fail.
const containerdConfig = `version = 3
root = %q
state = %q
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  enable_cdi = true
  cdi_spec_dirs = [%q]
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = %q
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
`

// withoutProfiles writes a program that takes profiles of system calls out of what runc is given.
func (n *Node) withoutProfiles(runc string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path, err := n.c.write("runc", fmt.Sprintf("#!/bin/sh\nexec %q %s %q \"$@\"\n", self, Runc,
		runc))
	return path, errors.Join(err, os.Chmod(path, 0o700))
}

func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	return n.c.run(ctx, "", "ctr", append([]string{"--address", n.socket, "-n", "k8s.io"},
		args...)...)
}

// load brings an image in.
func (n *Node) load(ctx context.Context, i *Image) error {
	path := filepath.Join(n.c.dir, "image.tar")
	if err := i.write(path); err != nil {
		return err
	}
	defer os.Remove(path)
	_, err := n.ctr(ctx, "images", "import", "--snapshotter", "overlayfs", path)
	return err
}

// kubelet starts it.
func (n *Node) kubelet() error {
	c := n.c
	in, err := c.kubeconfig("kubelet", c.tokenOf(nodeUser))
	if err != nil {
		return err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	health, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	config, err := c.write("kubelet.yaml", fmt.Sprintf(kubeletConfig, port, health, n.socket,
		n.Logs, filepath.Join(c.dir, "volumeplugins")))
	if err != nil {
		return err
	}
	_, err = c.begin("kubelet", "--kubeconfig="+in, "--config="+config,
		"--hostname-override="+NodeName, "--node-ip="+c.net.address, "--root-dir="+n.Kubelet,
		"--cert-dir="+filepath.Join(n.Kubelet, "pki"))
	return err
}

// kubeletConfig has places for ports of the kubelet and of its health, the runtime's socket and the
// folders of logs and of plug-ins for volumes. A container that ends is started again within a
// second, so that a test can have one end a hundred times.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %s
healthzPort: %s
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://%s
podLogsDir: %q
volumePluginDir: %q
oomScoreAdj: 0
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
resolvConf: ""
clusterDNS: []
imageGCHighThresholdPercent: 100
imageMaximumGCAge: 0s
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%}
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
nodeStatusUpdateFrequency: 5s
`

// sweep ends what containers are left when the cluster ends, with what holds them, and takes their
// mounts and control groups away.
func (n *Node) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, p := range n.c.processes {
		if p.name == "kubelet" {
			p.kill()
		}
	}
	n.endShims()
	for _, p := range n.c.processes {
		if p.name == "containerd" {
			p.kill()
		}
	}
	n.unmount()
	for _, hierarchy := range []string{"", "*/"} {
		groups, _ := filepath.Glob("/sys/fs/cgroup/" + hierarchy + "kubepods")
		for _, g := range groups {
			removeGroups(ctx, g)
		}
	}
}

// endShims ends the processes that hold containers, and with each all of its containers'.
func (n *Node) endShims() {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range processes {
		text, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(text), n.socket) ||
			!strings.Contains(string(text), "containerd-shim-runc-v2") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err == nil {
			endTree(pid)
		}
	}
}

// endTree ends a process and what it has started.
func endTree(pid int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for _, child := range strings.Fields(string(text)) {
			var n int
			if _, err := fmt.Sscan(child, &n); err == nil {
				endTree(n)
			}
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// unmount takes away all mounts below the cluster's folder, the innermost first.
func (n *Node) unmount() {
	text, _ := os.ReadFile("/proc/self/mounts")
	var paths []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], n.c.dir+"/") {
			paths = append(paths, f[1])
		}
	}
	for i := len(paths) - 1; i >= 0; i-- {
		_ = syscall.Unmount(paths[i], syscall.MNT_DETACH)
	}
}

// removeGroups removes empty control groups, the innermost first.
func removeGroups(ctx context.Context, root string) {
	var all []string
	_ = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			all = append(all, path)
		}
		return ctx.Err()
	})
	for i := len(all) - 1; i >= 0; i-- {
		_ = syscall.Rmdir(all[i])
	}
}
