package plugin

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// Answer is where a pod would go.
type Answer struct {
	Pod     string   `json:"pod"`            // with its namespace
	Node    string   `json:"node,omitempty"` // "" for nowhere
	Devices []string `json:"devices,omitempty"`
	// Victims are the pods, with their namespaces, that would have to go first.
	Victims []string `json:"victims,omitempty"`
	Why     string   `json:"why,omitempty"` // it goes nowhere, or that cannot be foretold
}

// Wish is pods that are not there, with their claims and the templates of such.
type Wish struct {
	Pods      []*v1.Pod
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
}

// WhatIf says where pods would go if they came now, one after the other, by the code that places
// them: the cluster is read once, and nothing is written. Pods that wait already are not before
// them, and other plug-ins of the scheduler, as for volumes or affinity between pods, are not
// asked. Of a gang that is not whole all members go nowhere. Where the arguments have no workload,
// it is what claims have now. The error is of what cannot be read.
func WhatIf(ctx context.Context, c kubernetes.Interface, a *Args, w *Wish) ([]Answer, error) {
	p, stock, err := supposed(a)
	if err != nil {
		return nil, err
	}
	if err := p.readAll(ctx, c, stock); err != nil {
		return nil, err
	}
	for i, pod := range w.Pods {
		pod.UID = types.UID(fmt.Sprint("what-if-", i))
		err := errors.Join(stock.claims.give(ctx, c, pod, w), rankOf(ctx, c, pod))
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if g := gangOf(pod); g.name != "" && g.err == nil {
			_, _ = p.arrives(g, pod) // who is missing is said of each below
		}
	}
	all := make([]Answer, len(w.Pods))
	for i, pod := range w.Pods {
		all[i] = p.suppose(pod)
		all[i].Pod = pod.Namespace + "/" + pod.Name
	}
	return all, nil
}

// rankOf gives a pod the priority of its class, as admission has it.
func rankOf(ctx context.Context, c kubernetes.Interface, pod *v1.Pod) error {
	if pod.Spec.Priority != nil || pod.Spec.PriorityClassName == "" {
		return nil
	}
	class, err := c.SchedulingV1().PriorityClasses().Get(ctx, pod.Spec.PriorityClassName,
		metav1.GetOptions{})
	if err == nil {
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = &class.Value, class.PreemptionPolicy
	}
	return err
}

// supposed is a plug-in that no scheduler runs.
func supposed(a *Args) (*Plugin, *stock, error) {
	policy, ok := place.Named(a.Policy)
	if !ok {
		return nil, nil, fmt.Errorf("no policy is named %q", a.Policy)
	}
	l, err := live.New(live.Options{Policy: policy, Workload: a.workload()})
	if err != nil {
		return nil, nil, err
	}
	s := &stock{claims: claims{byName: map[string]*resourceapi.ResourceClaim{}},
		classes: classes{}}
	p := &Plugin{args: a, inventory: newInventory(), book: newBook(), selectors: newSelectors(),
		live: l, pods: map[string]*v1.Pod{}, running: map[string]*v1.Pod{},
		gangs: map[string]*gang{}, doomed: map[types.UID]string{},
		refused: map[string]map[string]bool{}, fair: live.NewFair(), clock: clock.RealClock{}}
	p.manager = &manager{SharedDRAManager: s, plugin: p}
	return p, s, nil
}

// readAll tells the plug-in of all that is.
func (p *Plugin) readAll(ctx context.Context, c kubernetes.Interface, s *stock) error {
	all := metav1.ListOptions{}
	classes, err := c.ResourceV1().DeviceClasses().List(ctx, all)
	nodes, err2 := c.CoreV1().Nodes().List(ctx, all)
	slices, err3 := c.ResourceV1().ResourceSlices().List(ctx, all)
	claims, err4 := c.ResourceV1().ResourceClaims("").List(ctx, all)
	pods, err5 := c.CoreV1().Pods("").List(ctx, all)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return err
	}
	for i := range classes.Items {
		s.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	for i := range nodes.Items {
		p.nodeIs(&nodes.Items[i])
	}
	for i := range slices.Items {
		p.sliceIs(&slices.Items[i])
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		s.claims.byName[c.Namespace+"/"+c.Name] = c
		p.claimIs(c)
		if h, _, ok := p.holderOf(c); ok {
			for _, part := range h.Parts {
				p.live.Saw(part.Request)
			}
		}
	}
	for i := range pods.Items {
		p.podIs(&pods.Items[i])
	}
	return nil
}

// suppose places a pod, if there is a place for it.
func (p *Plugin) suppose(pod *v1.Pod) Answer {
	d, err := p.demandOf(pod)
	if err != nil {
		return Answer{Why: err.Error()}
	}
	g := gangOf(pod)
	switch {
	case g.err != nil:
		return Answer{Why: g.err.Error()}
	case g.name != "":
		if _, err := p.arrives(g, pod); err != nil {
			return Answer{Why: err.Error()}
		}
	}
	if d.foreign {
		return Answer{Why: "its claims ask for what weir does not place: Kubernetes' allocator " +
			"would, by the order of nodes and devices"}
	}
	s := &state{demand: d}
	choices, err := p.choose(s, pod)
	if err == nil {
		p.mu.Lock()
		p.live.Hold(live.Holder{Key: seatKey(string(pod.UID)), Node: choices[0].Node,
			Parts: []live.Part{{Request: d.Request, Devices: choices[0].Devices}}})
		p.mu.Unlock()
		return Answer{Node: choices[0].Node, Devices: choices[0].Devices}
	}
	a := Answer{Why: err.Error()}
	if !errors.Is(err, place.ErrNoRoom) || d.Count == 0 || g.name != "" ||
		pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return a
	}
	return p.instead(s, pod, a)
}

// instead has those go who would have to.
func (p *Plugin) instead(s *state, pod *v1.Pod, a Answer) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	choice, victims, err := p.live.Preempt(s.Request, corev1helpers.PodPriority(pod),
		p.allowed(pod, s.demand))
	if err != nil {
		return a
	}
	p.live.Promise(seatKey(string(pod.UID)), s.Request, choice.Node, victims)
	for _, uid := range victims {
		if v := p.running[uid]; v != nil {
			a.Victims = append(a.Victims, v.Namespace+"/"+v.Name)
		}
		for claim, c := range p.book.on[choice.Node] {
			if r := c.Status.ReservedFor; len(r) == 1 && string(r[0].UID) == uid {
				p.live.Drop(claimKey(claim))
			}
		}
		p.live.Drop(podKey(uid))
	}
	return Answer{Node: choice.Node, Devices: choice.Devices, Victims: a.Victims}
}

// give has a pod's claims be there: those that it names, and those of its templates, as the
// cluster's controller would make them.
func (c *claims) give(ctx context.Context, client kubernetes.Interface, pod *v1.Pod,
	w *Wish) error {
	annotated, err := c.short(pod)
	if err != nil {
		return err
	}
	for _, own := range w.Claims {
		c.byName[own.Namespace+"/"+own.Name] = own
	}
	for i := range pod.Spec.ResourceClaims {
		r := &pod.Spec.ResourceClaims[i]
		if r.ResourceClaimTemplateName == nil || r.Name == dra.ShortClaim && annotated {
			continue
		}
		t, err := w.template(ctx, client, pod.Namespace, *r.ResourceClaimTemplateName)
		if err != nil {
			return err
		}
		c.make(pod, r.Name, t.Spec.Spec)
	}
	return nil
}

// make makes a claim of a pod.
func (c *claims) make(pod *v1.Pod, name string, spec resourceapi.ResourceClaimSpec) {
	of := pod.Name + "-" + name
	c.byName[pod.Namespace+"/"+of] = &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Name: of, Namespace: pod.Namespace, UID: pod.UID + "/" + types.UID(name)}, Spec: spec}
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
		v1.PodResourceClaimStatus{Name: name, ResourceClaimName: &of})
}

// short makes the claim of a pod that asks by annotations, as admission has it, and reports whether
// it is such a pod.
func (c *claims) short(pod *v1.Pod) (bool, error) {
	s, ok, err := dra.ParseShort(pod.Annotations)
	if err != nil || !ok {
		return ok, err
	}
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: dra.DriverName,
		Capacity: &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{}}}
	for name, text := range map[resourceapi.QualifiedName]string{dra.CapacityMemory: s.Memory,
		dra.CapacityCompute: s.Compute} {
		if text == "" {
			continue
		}
		if r.Capacity.Requests[name], err = resource.ParseQuantity(text); err != nil {
			return true, err
		}
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{
		Name: dra.ShortClaim, ResourceClaimTemplateName: ptr.To(s.Template())})
	c.make(pod, dra.ShortClaim, resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: r}}}})
	return true, nil
}

// template finds a template of the wish, or of the cluster.
func (w *Wish) template(ctx context.Context, c kubernetes.Interface, namespace,
	name string) (*resourceapi.ResourceClaimTemplate, error) {
	for _, t := range w.Templates {
		if t.Namespace == namespace && t.Name == name {
			return t, nil
		}
	}
	return c.ResourceV1().ResourceClaimTemplates(namespace).Get(ctx, name, metav1.GetOptions{})
}

// stock is claims and classes as they were read; what else a scheduler has, nobody asks it for.
type stock struct {
	fwk.SharedDRAManager
	claims  claims
	classes classes
}

func (s *stock) ResourceClaims() fwk.ResourceClaimTracker { return &s.claims }
func (s *stock) DeviceClasses() fwk.DeviceClassLister     { return s.classes }

type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if d := c[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("device class %s: there is none", name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.ErrUnsupported }

type claims struct {
	fwk.ResourceClaimTracker
	byName map[string]*resourceapi.ResourceClaim // with their namespaces
}

func (c *claims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if d := c.byName[namespace+"/"+name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("claim %s/%s: there is none", namespace, name)
}
