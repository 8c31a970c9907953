package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"
)

// world is the real scheduler with the plug-in, configured as shipped, before client-go's fake of a
// server. Nothing but the server is not the real thing.
type world struct {
	t      *testing.T
	client *fake.Clientset
	events *recorder
	plugin *Plugin
	args   string // of the plug-in, in place of the shipped ones; "" for those
	gate   *gate  // nil: no other plug-in than the shipped ones

	mu       sync.Mutex
	versions int
	created  int
}

// newWorld starts a scheduler. Objects that it is to find at its start are made by before.
func newWorld(t *testing.T, before func(*world)) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(), events: &recorder{}}
	w.client.PrependReactor("*", "*", w.number)
	w.client.PrependReactor("create", "pods", w.bind)
	before(w)
	config := must(options.LoadConfigFromFile(klog.Background(), w.config()))
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(w.client, 0)
	s, err := scheduler.New(ctx, w.client, factory, nil, w.events.factory,
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: w.made(t),
			"Gate": func(context.Context, runtime.Object, frameworkHandle) (frameworkPlugin,
				error) {
				return w.gate, nil
			}}))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done; factory.Shutdown() })
	return w
}

// config is the file that the scheduler is started with.
func (w *world) config() string {
	const shipped, args = "../config.yaml", "{policy: prices}"
	const weir = "          - {name: Weir, weight: 10000}\n"
	text := string(must(os.ReadFile(shipped)))
	if w.args != "" {
		text = w.instead(text, args, w.args)
	}
	if w.gate != nil {
		text = w.instead(text, weir, weir+"          - {name: Gate}\n")
	}
	path := filepath.Join(w.t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// instead is a text with a part of it replaced.
func (w *world) instead(text, part, by string) string {
	if !strings.Contains(text, part) {
		w.t.Fatalf("the configuration has no %s", part)
	}
	return strings.Replace(text, part, by, 1)
}

// number gives objects what a server gives them: a UID and rising versions, and refuses old ones.
func (w *world) number(a clienttesting.Action) (bool, runtime.Object, error) {
	c, ok := a.(clienttesting.CreateAction)
	if !ok || a.GetSubresource() == "binding" {
		return false, nil, nil
	}
	o, err := meta.Accessor(c.GetObject())
	if err != nil {
		return true, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions++
	o.SetResourceVersion(strconv.Itoa(w.versions))
	if a.GetVerb() == "create" && o.GetUID() == "" {
		w.created++
		o.SetUID(types.UID(fmt.Sprint("uid-", w.created)))
		o.SetCreationTimestamp(metav1.Now())
	}
	return false, nil, nil
}

// bind does what a server does with a binding.
func (w *world) bind(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	pods := v1.SchemeGroupVersion.WithResource("pods")
	o, err := w.client.Tracker().Get(pods, b.Namespace, b.Name)
	if err != nil {
		return true, nil, err
	}
	pod := o.(*v1.Pod).DeepCopy()
	if pod.Spec.NodeName != "" {
		return true, nil, fmt.Errorf("pod %s is bound already", pod.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions++
	pod.Spec.NodeName, pod.ResourceVersion = b.Target.Name, strconv.Itoa(w.versions)
	err = w.client.Tracker().Update(pods, pod, b.Namespace)
	return true, b, err
}

// recorder keeps events.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) factory(string) events.EventRecorderLogger { return r }

func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *recorder) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	o, _ := meta.Accessor(about)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s: %s", o.GetName(), reason, fmt.Sprintf(note, args...)))
}

// said reports whether there was an event of which each word is part.
func (r *recorder) said(words ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		all := true
		for _, word := range words {
			all = all && strings.Contains(e, word)
		}
		if all {
			return true
		}
	}
	return false
}

// eventually waits for what the scheduler does in its own time.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	const patience = 20 * time.Second
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			w.events.mu.Lock()
			defer w.events.mu.Unlock()
			w.t.Fatalf("%s: not after %v; events:\n%s", what, patience,
				strings.Join(w.events.all, "\n"))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// class makes the class of devices.
func (w *world) class() {
	must(w.client.ResourceV1().DeviceClasses().Create(w.t.Context(), &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu.weir.dev"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.weir.dev" && ` +
				`device.attributes["gpu.weir.dev"].type == "gpu"`}}}},
	}, metav1.CreateOptions{}))
}

// node makes a node with devices of a model, four to a NUMA node, beside its CPU.
func (w *world) node(name, model string, devices int) *v1.Node {
	size := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"),
		"pods": resource.MustParse("250")}
	n := must(w.client.CoreV1().Nodes().Create(w.t.Context(), &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Status: v1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}, metav1.CreateOptions{}))
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-weir"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.weir.dev", NodeName: &name,
			Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, device(fmt.Sprint("cuda-", i), "gpu", model, i/4))
	}
	s.Spec.Devices = append(s.Spec.Devices, device("cpu-0", "cpu", "Zen", 0))
	must(w.client.ResourceV1().ResourceSlices().Create(w.t.Context(), s, metav1.CreateOptions{}))
	return n
}

// device is one as the driver publishes it.
func device(name, kind, model string, numa int) resourceapi.Device {
	none := resource.MustParse("0")
	return resourceapi.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"type": {StringValue: &kind}, "model": {StringValue: &model},
			"numaNode":    {IntValue: ptr.To(int64(numa))},
			"nvlinkGroup": {IntValue: ptr.To(int64(0))}},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("80Gi")},
			"compute": {Value: resource.MustParse("1"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &none,
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &none}}}}}
}

// wish is a claim's request.
type wish struct {
	memory, compute string // "" for none named
	class           string // "" for GPUs
	cel             string
	parameters      string
}

// claim makes a claim of some requests.
func (w *world) claim(name string, wishes ...wish) {
	must(w.client.ResourceV1().ResourceClaims("default").Create(w.t.Context(),
		w.newClaim(name, wishes...), metav1.CreateOptions{}))
}

func (w *world) newClaim(name string, wishes ...wish) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	for i, v := range wishes {
		if v.class == "" {
			v.class = "gpu.weir.dev"
		}
		r := &resourceapi.ExactDeviceRequest{DeviceClassName: v.class, Count: 1,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount,
			Capacity:       &resourceapi.CapacityRequirements{}}
		r.Capacity.Requests = map[resourceapi.QualifiedName]resource.Quantity{}
		for name, v := range map[string]string{"memory": v.memory, "compute": v.compute} {
			if v != "" {
				r.Capacity.Requests[resourceapi.QualifiedName(name)] = resource.MustParse(v)
			}
		}
		if v.cel != "" {
			r.Selectors = []resourceapi.DeviceSelector{{
				CEL: &resourceapi.CELDeviceSelector{Expression: v.cel}}}
		}
		if v.parameters != "" {
			c.Spec.Devices.Config = append(c.Spec.Devices.Config, configOf(v.parameters))
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprint("r", i), Exactly: r})
	}
	return c
}

func configOf(parameters string) resourceapi.DeviceClaimConfiguration {
	return resourceapi.DeviceClaimConfiguration{DeviceConfiguration: resourceapi.
		DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.weir.dev",
		Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion": "gpu.weir.dev/v1alpha1", ` +
			`"kind": "ShareParameters", ` + parameters + `}`)}}}}
}

// pod makes a pod with claims.
func (w *world) pod(name string, change func(*v1.Pod), claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{SchedulerName: "weir-scheduler", Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				"cpu": resource.MustParse("1")}}}}}}
	for _, c := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: c,
			ResourceClaimName: ptr.To(c)})
	}
	if change != nil {
		change(pod)
	}
	return must(w.client.CoreV1().Pods("default").Create(w.t.Context(), pod,
		metav1.CreateOptions{}))
}

// of returns the node of a pod, "" where it has none.
func (w *world) of(pod string) string {
	p, err := w.client.CoreV1().Pods("default").Get(context.Background(), pod, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return p.Spec.NodeName
}

// devices returns what a claim was given: "node/device".
func (w *world) devices(claim string) (all []string) {
	c := must(w.client.ResourceV1().ResourceClaims("default").Get(w.t.Context(), claim,
		metav1.GetOptions{}))
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			all = append(all, r.Pool+"/"+r.Device)
		}
	}
	return all
}

// nic makes a device of another driver, of a class of its own.
func (w *world) nic(node string) {
	must(w.client.ResourceV1().DeviceClasses().Create(w.t.Context(), &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "nic.example.com"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{
				Expression: `device.driver == "nic.example.com"`}}}}}, metav1.CreateOptions{}))
	must(w.client.ResourceV1().ResourceSlices().Create(w.t.Context(), &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-nic"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "nic.example.com", NodeName: &node,
			Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "eth0"}}}}, metav1.CreateOptions{}))
}

// delete deletes a pod and, as the controllers would, what its claims have.
func (w *world) delete(pod string, claims ...string) {
	if err := w.client.CoreV1().Pods("default").Delete(w.t.Context(), pod,
		metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.free(claims...)
}

func (w *world) free(claims ...string) {
	for _, name := range claims {
		c := must(w.client.ResourceV1().ResourceClaims("default").Get(w.t.Context(), name,
			metav1.GetOptions{})).DeepCopy()
		c.Status = resourceapi.ResourceClaimStatus{}
		must(w.client.ResourceV1().ResourceClaims("default").UpdateStatus(w.t.Context(), c,
			metav1.UpdateOptions{}))
	}
}

// shares makes pods, each with a claim of its name for the same part of a device.
func (w *world) shares(prefix string, count int, memory, compute string, change func(*v1.Pod)) {
	for i := range count {
		name := fmt.Sprintf("%s%03d", prefix, i)
		w.claim(name, wish{memory: memory, compute: compute})
		w.pod(name, change, name)
	}
}

// bound counts pods of a prefix that have a node.
func (w *world) bound(prefix string) (n int) {
	pods := must(w.client.CoreV1().Pods("default").List(context.Background(),
		metav1.ListOptions{}))
	for i := range pods.Items {
		if strings.HasPrefix(pods.Items[i].Name, prefix) && pods.Items[i].Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// made is New, and keeps what it made.
func (w *world) made(t *testing.T) frameworkruntime.PluginFactory {
	return func(ctx context.Context, from runtime.Object, h frameworkHandle) (frameworkPlugin,
		error) {
		p, err := New(ctx, from, h)
		if err == nil {
			w.plugin = p.(*Plugin)
		}
		return p, err
	}
}

// overcommitted returns the devices of which claims have more than there is.
func (w *world) overcommitted() (all []string) {
	type used struct{ compute, memory int64 }
	sum := map[string]used{}
	claims := must(w.client.ResourceV1().ResourceClaims("").List(w.t.Context(),
		metav1.ListOptions{}))
	for i := range claims.Items {
		a := claims.Items[i].Status.Allocation
		if a == nil {
			continue
		}
		for _, r := range a.Devices.Results {
			u := sum[r.Pool+"/"+r.Device]
			compute, memory := r.ConsumedCapacity["compute"], r.ConsumedCapacity["memory"]
			u.compute += compute.MilliValue()
			u.memory += memory.Value()
			sum[r.Pool+"/"+r.Device] = u
		}
	}
	for name, u := range sum {
		if u.compute > 1000 || u.memory > 80<<30 {
			all = append(all, name)
		}
	}
	return all
}
