package plugin

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	regpb "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/share"
)

// machine is a node: an agent of two fake GPUs and a driver, with the objects of a cluster.
type machine struct {
	t       *testing.T
	dir     string
	agent   *agent.Agent
	client  *fake.Clientset
	stop    context.CancelFunc
	stopped chan error
}

func newMachine(t *testing.T, claims ...*resourceapi.ResourceClaim) *machine {
	dir, err := os.MkdirTemp("", "weir") // short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{"plugin", "registry", "cdi"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	objects := []runtime.Object{&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}}}
	for _, c := range claims {
		objects = append(objects, c)
	}
	m := &machine{t: t, dir: dir, client: fake.NewClientset(objects...)}
	m.startAgent()
	m.start()
	t.Cleanup(func() { m.kill(); _ = m.agent.Close() })
	return m
}

func (m *machine) startAgent() {
	m.t.Helper()
	var err error
	m.agent, err = agent.Start(agent.Config{Dir: filepath.Join(m.dir, "run"), Door: true,
		Devices: []agent.Device{
			{Ordinal: 0, Name: "zero", Memory: 80 * share.GiB, Fake: true, UUID: [16]byte{1}},
			{Ordinal: 1, Name: "one", Memory: 80 * share.GiB, Fake: true, UUID: [16]byte{2}}}})
	if err != nil {
		m.t.Fatal(err)
	}
}

// start begins a driver.
func (m *machine) start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.stopped = cancel, make(chan error, 1)
	stopped := m.stopped
	go func() {
		stopped <- Run(ctx, Options{
			NodeName: "n1",
			Client:   m.client,
			Dir:      filepath.Join(m.dir, "plugin"),
			Registry: filepath.Join(m.dir, "registry"),
			CDI:      filepath.Join(m.dir, "cdi"),
			Agent:    dra.Local{Dir: filepath.Join(m.dir, "run")},
			Node: dra.Node{Runtime: filepath.Join(m.dir, "run"), UID: os.Getuid(),
				Shim: "/opt/shim.so", FakeDriver: "/opt/fake", FakeState: "/run/gpu",
				Hook: "/opt/weir-node"},
			CPU:   device.Info{Name: "cpu", MemoryBytes: 8 << 30, Units: 4},
			Every: 20 * time.Millisecond,
			Log:   slog.New(slog.DiscardHandler),
		})
	}()
}

// kill ends the driver.
func (m *machine) kill() {
	m.t.Helper()
	m.stop()
	if m.stopped != nil {
		if err := <-m.stopped; err != nil {
			m.t.Error(err)
		}
		m.stopped = nil
	}
}

// dial connects to a socket that will be there.
func (m *machine) dial(path string) *grpc.ClientConn {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	m.eventually("a socket "+path, func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	c, err := grpc.NewClient("unix://"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (m *machine) eventually(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// allocated is a claim that the scheduler gave a part of a device.
func allocated(uid, device, memory, compute, parameters string) *resourceapi.ResourceClaim {
	id := types.UID("share-" + uid)
	c := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c-" + uid, Namespace: "ns", UID: types.UID(uid)}}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "pod-" + uid}}
	a := &resourceapi.AllocationResult{}
	a.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Request: "gpu",
		Driver: dra.DriverName, Pool: "n1", Device: device, ShareID: &id,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{
			"memory": resource.MustParse(memory), "compute": resource.MustParse(compute)}},
		{Request: "nic", Driver: "other.example.com", Pool: "n1", Device: "x"}}
	if parameters != "" {
		opaque := resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: dra.DriverName, Parameters: runtime.RawExtension{Raw: []byte(
				`{"apiVersion":"gpu.weir.dev/v1alpha1","kind":"ShareParameters",` +
					parameters + `}`)}}}
		a.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
			Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: opaque}}
	}
	c.Status.Allocation = a
	return c
}

func ask(c *resourceapi.ResourceClaim) *drapb.Claim {
	return &drapb.Claim{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}
}

// TestKubeletPreparesAClaim speaks to the driver as a kubelet does, over its sockets, while driver
// and agent are started again, and lets CDI's own library put the result into a container.
func TestKubeletPreparesAClaim(t *testing.T) {
	claim := allocated("u1", "cuda-1", "8Gi", "300m", `"class":"latency","limit":"500m"`)
	m := newMachine(t, claim)
	info, err := regpb.NewRegistrationClient(m.dial("registry/gpu.weir.dev-reg.sock")).GetInfo(
		t.Context(), &regpb.InfoRequest{})
	if err != nil || info.Name != dra.DriverName || info.Type != regpb.DRAPlugin {
		t.Fatalf("%v, %v", info, err)
	}
	var ids []string
	for round := range 3 {
		r, err := drapb.NewDRAPluginClient(m.dial("plugin/dra.sock")).NodePrepareResources(
			t.Context(), &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{ask(claim)}})
		if err != nil || r.Claims["u1"].GetError() != "" || len(r.Claims["u1"].Devices) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		d := r.Claims["u1"].Devices[0]
		if ids = d.CdiDeviceIds; d.PoolName != "n1" || d.DeviceName != "cuda-1" ||
			!slices.Equal(d.RequestNames, []string{"gpu"}) || d.GetShareId() != "share-u1" {
			t.Errorf("%v", d)
		}
		j := m.agent.Snapshot().Devices[1].Jobs
		if len(j) != 1 || j[0].MemoryCapBytes != 8<<30 || j[0].Compute != 0.3 ||
			j[0].Limit != 0.5 || j[0].Class != share.Latency || j[0].Name != "pod-u1" {
			t.Fatalf("%+v", j)
		}
		if m.kill(); round == 0 {
			_ = m.agent.Close()
			m.startAgent()
		}
		m.start()
	}
	m.inject(ids)
	r, err := drapb.NewDRAPluginClient(m.dial("plugin/dra.sock")).NodeUnprepareResources(
		t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{ask(claim)}})
	if err != nil || r.Claims["u1"].GetError() != "" {
		t.Fatalf("%v, %v", r, err)
	}
	left, _ := os.ReadDir(filepath.Join(m.dir, "cdi"))
	if m.agent.Snapshot().Devices[1].PromisedBytes != 0 || len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

// inject has CDI's library bring a container in.
func (m *machine) inject(ids []string) {
	m.t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(filepath.Join(m.dir, "cdi")),
		cdi.WithAutoRefresh(false))
	if err != nil {
		m.t.Fatal(err)
	}
	var oci specs.Spec
	if missing, err := cache.InjectDevices(&oci, ids...); err != nil || len(missing) != 0 {
		m.t.Fatalf("missing %v, %v; %v", missing, err, cache.GetErrors())
	}
	env := strings.Join(oci.Process.Env, " ")
	if !strings.Contains(env, "LD_PRELOAD=/opt/weir/libweir.so") ||
		!strings.Contains(env, "WEIR_SOCKET=/run/weir/agent.sock") || len(oci.Mounts) != 4 ||
		oci.Mounts[0].Source != filepath.Join(m.dir, "run", "join") {
		m.t.Errorf("the container has %v and %+v", oci.Process.Env, oci.Mounts)
	}
}

// TestKubeletIsToldWhy has claims that cannot be: the answer has the reason.
func TestKubeletIsToldWhy(t *testing.T) {
	claims := map[string]*resourceapi.ResourceClaim{
		"limit 100m is below": allocated("u1", "cuda-0", "1Gi", "300m", `"limit":"100m"`),
		"unknown field":       allocated("u2", "cuda-0", "1Gi", "300m", `"priority":3`),
		"want 0 to 1":         allocated("u3", "cuda-0", "1Gi", "2", ""),
		"none of this name":   allocated("u4", "cuda-7", "1Gi", "0", ""),
		"which has 80GiB":     allocated("u5", "cuda-0", "81Gi", "0", ""),
		"parameters: class: ": allocated("u6", "cuda-0", "1Gi", "0", `"class":"urgent"`),
	}
	m := newMachine(t, slices.Collect(func(yield func(*resourceapi.ResourceClaim) bool) {
		for _, c := range claims {
			if !yield(c) {
				return
			}
		}
	})...)
	client := drapb.NewDRAPluginClient(m.dial("plugin/dra.sock"))
	for want, c := range claims {
		r, err := client.NodePrepareResources(t.Context(),
			&drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{ask(c)}})
		if err != nil || !strings.Contains(r.Claims[string(c.UID)].GetError(), want) {
			t.Errorf("%v, %v: want %q", r, err, want)
		}
	}
	for _, d := range m.agent.Snapshot().Devices {
		if len(d.Jobs) != 0 {
			t.Errorf("%+v", d.Jobs)
		}
	}
}

// TestSlicesFollowTheAgent reads what is published, as the agent goes and comes back.
func TestSlicesFollowTheAgent(t *testing.T) {
	m := newMachine(t)
	m.eventually("the devices", func() bool { return len(m.slices()) == 3 })
	d := m.slices()["cuda-1"]
	memory, compute := d.Capacity["memory"], d.Capacity["compute"]
	if memory.Value.String() != "80Gi" || compute.Value.String() != "1" || len(d.Taints) != 0 ||
		!*d.AllowMultipleAllocations || *d.Attributes["type"].StringValue != "gpu" ||
		*d.Attributes["numaNode"].IntValue != -1 || !*d.Attributes["fake"].BoolValue {
		t.Errorf("%+v", d)
	}
	_ = m.agent.Close()
	m.eventually("taints", func() bool {
		all := m.slices()
		return len(all) == 3 && len(all["cuda-0"].Taints) == 1 && len(all["cpu-0"].Taints) == 0 &&
			all["cuda-0"].Taints[0].Key == dra.AgentGone
	})
	m.eventually("an event of the node", func() bool { return m.event(AgentGone, "DaemonSet") })
	if m.event(AgentBack, "") {
		t.Error("is said to be back")
	}
	m.startAgent()
	m.eventually("no taints", func() bool { return len(m.slices()["cuda-0"].Taints) == 0 })
	m.eventually("an event of the node", func() bool { return m.event(AgentBack, "take pods") })
}

// slices are the devices that the cluster was told of.
func (m *machine) slices() map[string]resourceapi.Device {
	m.t.Helper()
	l, err := m.client.ResourceV1().ResourceSlices().List(m.t.Context(), metav1.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	all := map[string]resourceapi.Device{}
	for _, s := range l.Items {
		if s.Spec.Driver != dra.DriverName || s.Spec.Pool.Name != "n1" {
			m.t.Fatalf("%+v", s.Spec)
		}
		for _, d := range s.Spec.Devices {
			all[d.Name] = d
		}
	}
	return all
}

// TestDriverBeforeTheAgent starts a driver anew while no agent answers: the devices that were told
// of before stay, as claims have parts of them.
func TestDriverBeforeTheAgent(t *testing.T) {
	m := newMachine(t)
	m.eventually("the devices", func() bool { return len(m.slices()) == 3 })
	m.kill()
	_ = m.agent.Close()
	m.start()
	m.eventually("an event of the node", func() bool { return m.event(AgentGone, "DaemonSet") })
	if n := len(m.slices()); n != 3 {
		t.Errorf("%d devices are left", n)
	}
	m.startAgent()
	m.eventually("an event of the node", func() bool { return m.event(AgentBack, "take pods") })
	m.eventually("the devices", func() bool { return len(m.slices()) == 3 })
}

// event reports whether there is one event of the node, of a reason, with these words.
func (m *machine) event(reason, words string) bool {
	l, err := m.client.CoreV1().Events("default").List(m.t.Context(), metav1.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	n := 0
	for _, e := range l.Items {
		if e.Reason == reason && e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == "n1" &&
			strings.Contains(e.Message, words) {
			n++
		}
	}
	if n > 1 {
		m.t.Errorf("%d events %s", n, reason)
	}
	return n == 1
}
