package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// parallel calls f for 0 to n-1 from some workers, and returns their errors.
func parallel(n, workers int, f func(i int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// workers is how many create objects at a time.
const workers = 32

// kindLabel of a node says for what measurement it was made.
const kindLabel = "bench"

// machine is a node to make.
type machine struct {
	name, model string
	kind        string // of what measurement
	cpu         int64  // thousandths of a core
	memory      int64
	devices     int
}

// class is the class of the driver's GPUs, as the chart has it.
func (b *bench) class(ctx context.Context) error {
	_, err := b.client.ResourceV1().DeviceClasses().Create(ctx, &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu.weir.dev"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.weir.dev" && ` +
				`device.attributes["gpu.weir.dev"].type == "gpu"`}}}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// nodes makes nodes with devices, as the driver publishes them, and waits until they are ready.
func (b *bench) nodes(ctx context.Context, machines []machine) error {
	if err := b.class(ctx); err != nil {
		return err
	}
	err := parallel(len(machines), workers, func(i int) error { return b.node(ctx, &machines[i]) })
	if err != nil {
		return err
	}
	return b.ready(ctx, machines[0].kind, len(machines))
}

// ready waits until so many nodes of a kind take pods. A controller manager that has no processor
// for a while takes their heartbeats for lost, and taints them.
func (b *bench) ready(ctx context.Context, kind string, want int) error {
	for end := time.Now().Add(patience); ; {
		all, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
			LabelSelector: kindLabel + "=" + kind})
		if err != nil {
			return err
		}
		ready, tainted := 0, ""
		for i := range all.Items {
			n := &all.Items[i]
			if len(n.Spec.Taints) == 0 {
				ready++
				continue
			}
			tainted = fmt.Sprintf("node %s is tainted %s", n.Name, n.Spec.Taints[0].Key)
		}
		switch {
		case ready >= want:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("not within %v: %d nodes of %d: %s", patience, ready, want, tainted)
		}
		b.say("%d nodes of %d: %s", ready, want, tainted)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (b *bench) node(ctx context.Context, m *machine) error {
	size := v1.ResourceList{"cpu": *resource.NewMilliQuantity(m.cpu, resource.DecimalSI),
		"memory": *resource.NewQuantity(m.memory, resource.BinarySI),
		"pods":   *resource.NewQuantity(1000, resource.DecimalSI)}
	_, err := b.client.CoreV1().Nodes().Create(ctx, &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{"kubernetes.io/hostname": m.name,
				kindLabel: m.kind}},
		Status: v1.NodeStatus{Capacity: size, Allocatable: size, Conditions: []v1.NodeCondition{{
			Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now(),
			LastTransitionTime: metav1.Now()}}}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // of a measurement before
	}
	if err != nil || m.devices == 0 {
		return err
	}
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: m.name + "-weir"},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.weir.dev", NodeName: &m.name,
			Pool: resourceapi.ResourcePool{Name: m.name, Generation: 1, ResourceSliceCount: 1}}}
	for i := range m.devices {
		s.Spec.Devices = append(s.Spec.Devices, device(fmt.Sprint("cuda-", i), m.model, i/4))
	}
	_, err = b.client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
	return err
}

func device(name, model string, numa int) resourceapi.Device {
	none := resource.MustParse("0")
	return resourceapi.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"type": {StringValue: ptr.To("gpu")}, "model": {StringValue: &model},
			"numaNode":    {IntValue: ptr.To(int64(numa))},
			"nvlinkGroup": {IntValue: ptr.To(int64(0))}},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("80Gi")},
			"compute": {Value: resource.MustParse("1"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &none,
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &none}}}}}
}

// shape is a pod to make.
type shape struct {
	cpu, memory int64 // thousandths of a core, bytes
	devices     int
	units       int
	bytes       int64  // of each device
	models      string // "A|B", "" for any
	class       string // "" or "opportunistic"
}

// template is the name of the claim template of a shape, which is made if it is not there.
func (b *bench) template(ctx context.Context, s *shape) (string, error) {
	if name, ok := b.templates[*s]; ok {
		return name, nil
	}
	name := fmt.Sprintf("t-%d-%d-%d-%s-%x.t", s.devices, s.units, s.bytes>>20, s.class, s.models)
	name = strings.ReplaceAll(strings.ReplaceAll(name, "--", "-0-"), "-.", "-0.")
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: s.claim()}}
	_, err := b.client.ResourceV1().ResourceClaimTemplates("default").Create(ctx, t,
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	b.templates[*s] = name
	return name, nil
}

// claim is what a pod of a shape claims.
func (s *shape) claim() (to resourceapi.ResourceClaimSpec) {
	for i := range s.devices {
		r := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.weir.dev",
			Capacity: &resourceapi.CapacityRequirements{
				Requests: map[resourceapi.QualifiedName]resource.Quantity{
					"memory":  *resource.NewQuantity(s.bytes, resource.BinarySI),
					"compute": *resource.NewMilliQuantity(int64(s.units), resource.DecimalSI)}}}
		if s.models != "" {
			r.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf(`device.attributes["gpu.weir.dev"].model in %s`,
					quoted(s.models))}}}
		}
		to.Devices.Requests = append(to.Devices.Requests,
			resourceapi.DeviceRequest{Name: fmt.Sprint("r", i), Exactly: r})
	}
	if s.class != "" {
		to.Devices.Config = []resourceapi.DeviceClaimConfiguration{{
			DeviceConfiguration: resourceapi.DeviceConfiguration{
				Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.weir.dev",
					Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion": `+
						`"gpu.weir.dev/v1alpha1", "kind": "ShareParameters", "class": %q}`,
						s.class)}}}}}
	}
	return to
}

// pod makes a pod of a shape.
func (b *bench) pod(ctx context.Context, name, scheduler, template string, s *shape,
	change func(*v1.Pod)) error {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		SchedulerName: scheduler, TerminationGracePeriodSeconds: ptr.To(int64(0)),
		Containers: []v1.Container{{Name: "c", Image: "none",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				"cpu":    *resource.NewMilliQuantity(s.cpu, resource.DecimalSI),
				"memory": *resource.NewQuantity(s.memory, resource.BinarySI)}}}}}}
	if template != "" {
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d",
			ResourceClaimTemplateName: &template}}
		pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "d"}}
	}
	if change != nil {
		change(pod)
	}
	_, err := b.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// fill gives away a part of each device by claims of nobody's, in steps of a quarter.
func (b *bench) fill(ctx context.Context, machines []machine) error {
	s := &shape{devices: 1, units: 250, bytes: 20 << 30}
	parts := int(b.full * 4)
	if parts == 0 {
		return nil
	}
	_, err := b.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "full"}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // by a measurement before
	}
	if err != nil {
		return err
	}
	return parallel(len(machines)*parts, workers, func(i int) error {
		m := &machines[i/parts]
		for d := range m.devices {
			if err := b.given(ctx, m.name, d, i%parts, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// given makes a claim that has a part of a device.
func (b *bench) given(ctx context.Context, node string, device, part int, s *shape) error {
	claims := b.client.ResourceV1().ResourceClaims("full")
	c, err := claims.Create(ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d-%d", node, device, part)},
		Spec:       s.claim()}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	r := &c.Spec.Devices.Requests[0]
	c.Status.Allocation = &resourceapi.AllocationResult{
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
				Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}},
		Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: r.Name,
				Driver: "gpu.weir.dev", Pool: node, Device: fmt.Sprint("cuda-", device),
				ShareID:          ptr.To(uuid.NewUUID()),
				ConsumedCapacity: r.Exactly.Capacity.Requests}}}}
	_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

// clear deletes all pods, and waits until they and their claims are gone.
func (b *bench) clear(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	err := b.client.CoreV1().Pods("default").DeleteCollection(ctx, now, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for {
		claims, err := b.client.ResourceV1().ResourceClaims("default").List(ctx,
			metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		pods, err := b.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(claims.Items)+len(pods.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// seen is when what happened to pods, as a watch told.
type seen struct {
	mu      sync.Mutex
	pods    map[string]*v1.Pod
	claimed map[string]time.Time
	bound   map[string]time.Time
	running map[string]time.Time
	gone    map[string]time.Time
	began   time.Time     // when the first claim of a pod was seen to have devices
	changed chan struct{} // has one element when something did
}

// watch tells of pods until the context is done.
func (b *bench) watch(ctx context.Context) (*seen, error) {
	s := &seen{pods: map[string]*v1.Pod{}, claimed: map[string]time.Time{},
		bound: map[string]time.Time{}, running: map[string]time.Time{},
		gone: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	f := informers.NewSharedInformerFactory(b.client, 0)
	i := f.Core().V1().Pods().Informer()
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.is(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { s.is(o.(*v1.Pod)) },
		DeleteFunc: func(o any) {
			if p, ok := o.(*v1.Pod); ok {
				s.note(s.gone, p)
			}
		}})
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	return s, err
}

// tell has somebody who waits look.
func (s *seen) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *seen) is(p *v1.Pod) {
	s.mu.Lock()
	s.pods[p.Name] = p
	s.mu.Unlock()
	if len(p.Status.ResourceClaimStatuses) > 0 {
		s.note(s.claimed, p)
	}
	if p.Spec.NodeName != "" {
		s.note(s.bound, p)
	}
	if p.Status.Phase == v1.PodRunning {
		s.note(s.running, p)
	}
}

func (s *seen) note(in map[string]time.Time, p *v1.Pod) {
	s.mu.Lock()
	if _, ok := in[p.Name]; !ok {
		in[p.Name] = time.Now()
	}
	s.mu.Unlock()
	s.tell()
}

// waits is an error with why some pod is not bound, as far as the scheduler has said.
func (s *seen) waits(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.pods {
		if _, ok := s.bound[name]; ok {
			continue
		}
		said := "the scheduler has said nothing of it"
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Message != "" {
				said = c.Message
			}
		}
		return fmt.Errorf("%w: %d of %d are bound, %d have their claims; pod %s: %s", err,
			len(s.bound), len(s.pods), len(s.claimed), name, said)
	}
	return err
}

// until waits until something holds, which is asked with the lock.
func (s *seen) until(ctx context.Context, what string, most time.Duration,
	holds func() bool) error {
	end := time.After(most)
	for {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fmt.Errorf("not within %v: %s", most, what)
		case <-s.changed:
		case <-time.After(time.Second):
		}
	}
}
