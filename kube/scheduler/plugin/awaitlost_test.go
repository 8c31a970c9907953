package plugin

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
)

// ofTemplate has a pod ask for a claim that is made for it.
func ofTemplate(p *v1.Pod) {
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d",
		ResourceClaimTemplateName: ptr.To("one")}}
}

// named has a pod's status name the claim that was made for it.
func (w *world) named(pod *v1.Pod, claim string) {
	pod = pod.DeepCopy()
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "d",
		ResourceClaimName: &claim}}
	must(w.client.CoreV1().Pods("default").UpdateStatus(w.t.Context(), pod, updateOptions))
}

// noted waits until a pod was let into the queue, or kept out of it.
func (w *world) noted(pod *v1.Pod, out bool) {
	w.t.Helper()
	w.eventually(pod.Name+" is noted", func() bool {
		w.plugin.mu.Lock()
		defer w.plugin.mu.Unlock()
		a := &w.plugin.awaits
		return a.pods[pod.UID] != nil && a.gated[pod.UID] == out
	})
}

// What a pod's own claim gives back without being deleted serves others, too.
func TestOwnClaimThatGivesBackServesOthers(t *testing.T) {
	w := newWorld(t, func(w *world) { nodes(1)(w); w.nic("a") })
	one := w.pod("one", ofTemplate)
	w.claimOf(one, "one-d", wish{class: "nic.example.com"})
	w.named(one, "one-d")
	w.eventually("one has it", func() bool { return w.of("one") == "a" })
	w.claim("two", wish{class: "nic.example.com"})
	w.pod("two", nil, "two")
	w.eventually("two waits", func() bool { return w.events.said("two FailedScheduling") })
	w.free("one-d")
	w.eventually("two has it", func() bool { return w.of("two") == "a" })
}

// A pod may name a claim that is made for another.
func TestPodNamesTheClaimOfAnother(t *testing.T) {
	w := newWorld(t, nodes(1))
	one := w.pod("one", ofTemplate)
	two := w.pod("two", nil, "one-d")
	w.noted(two, true)
	w.claimOf(one, "one-d", wish{memory: "1Gi", compute: "100m"})
	w.eventually("two is placed", func() bool { return w.of("two") == "a" })
}

// A pod whose claim is deleted while its turn comes is tried again once there is another.
func TestClaimThatIsMadeAgain(t *testing.T) {
	g := &gate{at: make(chan types.UID), open: make(chan struct{})}
	w := newWorld(t, func(w *world) { w.gate = g; nodes(1)(w) })
	w.shares("g", 1, "1Gi", "100m", member("g", 1))
	<-g.at // nobody else is tried now
	w.claim("one", wish{memory: "1Gi", compute: "100m"})
	one := w.pod("one", nil, "one")
	w.noted(one, false)
	claims := w.client.ResourceV1().ResourceClaims("default")
	if err := claims.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the claim is gone", func() bool {
		_, err := w.plugin.manager.ResourceClaims().Get("default", "one")
		return err != nil
	})
	close(g.open)
	w.eventually("one was tried", func() bool { return w.events.said("one FailedScheduling") })
	w.claim("one", wish{memory: "1Gi", compute: "100m"})
	w.eventually("one is placed", func() bool { return w.of("one") == "a" })
}

// Pods that ask for devices as extended resources have no claims, and wait for
// what others give back.
func TestClaimThatGivesBackServesExtendedResources(t *testing.T) {
	w := newWorld(t, func(w *world) {
		nodes(1)(w)
		w.nic("a")
		classes := w.client.ResourceV1().DeviceClasses()
		c := must(classes.Get(t.Context(), "nic.example.com", metav1.GetOptions{}))
		c.Spec.ExtendedResourceName = ptr.To("example.com/nic")
		must(classes.Update(t.Context(), c, updateOptions))
	})
	w.claim("one", wish{class: "nic.example.com"})
	w.pod("one", nil, "one")
	w.eventually("one has it", func() bool { return w.of("one") == "a" })
	w.pod("two", func(p *v1.Pod) {
		r := &p.Spec.Containers[0].Resources
		r.Requests["example.com/nic"] = resource.MustParse("1")
		r.Limits = v1.ResourceList{"example.com/nic": resource.MustParse("1")}
	})
	w.eventually("two waits", func() bool { return w.events.said("two FailedScheduling") })
	w.free("one")
	w.eventually("two has it", func() bool { return w.of("two") == "a" })
}

// activator counts pods that are tried again.
type activator struct {
	frameworkHandle
	tried   chan string
	factory informers.SharedInformerFactory
}

func (a activator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for _, pod := range pods {
		a.tried <- pod.Name
	}
}

func (a activator) SharedInformerFactory() informers.SharedInformerFactory { return a.factory }

func (activator) ClientSet() kubernetes.Interface { return nil }

// unscheduled is a plug-in that no scheduler runs, of which it is known whom it has tried again.
func unscheduled(t *testing.T) (*Plugin, *stock, activator) {
	p, known, err := supposed(&Args{Policy: "prices"})
	if err != nil {
		t.Fatal(err)
	}
	a := activator{tried: make(chan string, 1000),
		factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	p.handle, p.awaits = a, newAwaits()
	second := &metav1.Duration{Duration: time.Second}
	p.inner = must(dynamicresources.New(t.Context(), &config.DynamicResourcesArgs{
		FilterTimeout: second, BindingTimeout: second}, handle{a, p.manager},
		plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
	)).(*dynamicresources.DynamicResources)
	return p, known, a
}

// A pod's status gives it a claim of another name while the inner plug-in does not know that claim
// yet: the pod is tried once it does, whether the queue has the pod by its old state or tried it.
func TestClaimIsKnownAfterItsName(t *testing.T) {
	for _, tried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, known, a := unscheduled(t)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"}}
			ofTemplate(pod)
			now := pod.DeepCopy()
			now.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "d",
				ResourceClaimName: ptr.To("new")}}
			c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "new",
				Namespace: "default", UID: "c", OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: ptr.To(true)}}}}
			stores := a.factory
			must(0, stores.Core().V1().Pods().Informer().GetStore().Add(now))
			must(0, stores.Resource().V1().ResourceClaims().Informer().GetStore().Add(c))
			if tried {
				p.awaits.add(pod)
				delete(p.awaits.gated, pod.UID)
				p.podIs(now)
			} else if p.claimed(t.Context(), pod).IsSuccess() {
				t.Error("let in without its claim")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := len(a.tried); n > 0 {
				t.Errorf("%d tries in vain", n)
			}
			known.claims.byName["default/new"] = c
			time.Sleep(time.Second)
			synctest.Wait()
			if n := len(a.tried); n != 1 {
				t.Errorf("%d tries (tried before: %v)", n, tried)
			}
		})
	}
}

// stirred counts how often a pod is tried that waits, while claims are told, a moment apart.
func stirred(t *testing.T, told ...*resourceapi.ResourceClaim) (tries int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, _, a := unscheduled(t)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits", UID: "waits"}}
		p.awaits.add(pod)
		delete(p.awaits.gated, pod.UID)
		for _, c := range told {
			p.claimIs(c)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		tries = len(a.tried)
	})
	return tries
}

// version is a claim at a time, with devices or without.
func version(n int, given bool) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c",
		ResourceVersion: strconv.Itoa(n)}}
	if given {
		c.Status.Allocation = &resourceapi.AllocationResult{}
	}
	return c
}

// That a claim had no devices yet is told after the scheduler has given it some: nothing was given
// back, and nobody is tried for it.
func TestOlderClaimStirsNobody(t *testing.T) {
	given := version(3, true)
	if n := stirred(t, version(1, false), given, version(2, false), given); n > 0 {
		t.Errorf("%d tries", n)
	}
	if n := stirred(t, given, version(4, false)); n == 0 {
		t.Error("no try of one that waits for what was given back")
	}
}

// Where many claims give back what they had, those that wait are not tried for each.
func TestManyClaimsThatGiveBack(t *testing.T) {
	var told []*resourceapi.ResourceClaim
	for i := range 200 {
		told = append(told, version(i+1, i%2 == 0))
	}
	if n := stirred(t, told...); n == 0 || n > 4 {
		t.Errorf("%d tries", n)
	}
}

// A pod is found by the claims that it names now alone, and by none once it is dropped.
func TestClaimsThatAreNamedAnew(t *testing.T) {
	a := newAwaits()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"}}
	ofTemplate(pod)
	for _, name := range []string{"old", "new"} {
		pod = pod.DeepCopy()
		pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "d",
			ResourceClaimName: &name}}
		a.add(pod)
	}
	if n := len(a.users); n != 1 {
		t.Errorf("%d claims have users", n)
	}
	if a.drop(pod.UID); len(a.users) != 0 {
		t.Errorf("left: %v", a.users)
	}
}
