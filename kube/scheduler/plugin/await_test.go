package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// The scheduler's queue is not to look at all pods that wait for each claim that is made or
// written: it does for events that a plug-in asks for.
func TestQueueIsNotAskedForEachClaim(t *testing.T) {
	w := newWorld(t, nodes(1))
	all, err := w.plugin.EventsToRegister(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatalf("events %v: %v", all, err)
	}
	for _, e := range all {
		if e.Event.Resource == fwk.ResourceClaim && e.Event.ActionType != fwk.Delete {
			t.Errorf("asks for %s", e.Event.Label())
		}
	}
}

// Pods that come before the claims that they name are placed once those come, in whatever order.
func TestPodsBeforeTheirClaims(t *testing.T) {
	w := newWorld(t, nodes(2))
	const count = 40
	for i := range count {
		name := fmt.Sprintf("p%03d", i)
		w.pod(name, nil, name, fmt.Sprintf("q%03d", i))
	}
	for i := range count {
		w.claim(fmt.Sprintf("q%03d", (7*i)%count), wish{memory: "1Gi", compute: "100m"})
	}
	for i := range count {
		w.claim(fmt.Sprintf("p%03d", (11*i)%count), wish{memory: "1Gi", compute: "100m"})
	}
	w.eventually("all are placed", func() bool { return w.bound("p") == count })
}

// Claims that are made for pods are named by the pods' status before or after they come.
func TestClaimsMadeForPods(t *testing.T) {
	w := newWorld(t, nodes(2))
	const count = 40
	for i := range count {
		name := fmt.Sprintf("p%03d", i)
		pod := w.pod(name, func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d",
				ResourceClaimTemplateName: ptr.To("one")}}
		})
		named := func() {
			pod = pod.DeepCopy()
			pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "d",
				ResourceClaimName: ptr.To(name + "-d")}}
			must(w.client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, updateOptions))
		}
		if i%2 == 0 {
			named()
		}
		w.claimOf(pod, name+"-d", wish{memory: "1Gi", compute: "100m"})
		if i%2 == 1 {
			named()
		}
	}
	w.eventually("all are placed", func() bool { return w.bound("p") == count })
}

// claimOf makes a claim that is a pod's own.
func (w *world) claimOf(pod *v1.Pod, name string, wishes ...wish) {
	claims := w.client.ResourceV1().ResourceClaims("default")
	c := w.newClaim(name, wishes...)
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
		UID: pod.UID, Controller: ptr.To(true)}}
	must(claims.Create(w.t.Context(), c, metav1.CreateOptions{}))
}

// What a claim gives back without being deleted serves those that wait, of whatever driver.
func TestClaimThatGivesBackServesOthers(t *testing.T) {
	w := newWorld(t, func(w *world) { nodes(1)(w); w.nic("a") })
	w.claim("one", wish{class: "nic.example.com"})
	w.pod("one", nil, "one")
	w.eventually("one has it", func() bool { return w.of("one") == "a" })
	w.claim("two", wish{class: "nic.example.com"})
	w.pod("two", nil, "two")
	w.eventually("two waits", func() bool { return w.events.said("two FailedScheduling") })
	w.free("one")
	w.eventually("two has it", func() bool { return w.of("two") == "a" })
}

// Pods that share a claim wait while it is being written for the first of them.
func TestClaimThatIsWrittenServesItsUsers(t *testing.T) {
	w := newWorld(t, func(w *world) { nodes(2)(w); w.nic("b") })
	const count = 30
	for i := range count {
		w.pod(fmt.Sprintf("p%03d", i), nil, "shared")
	}
	w.claim("shared", wish{class: "nic.example.com"})
	w.eventually("all are placed", func() bool { return w.bound("p") == count })
}

// The queue asks once more for pods that are gone: nothing of them is noted, since nobody would
// forget it. Nor is anything left of pods that are placed or deleted.
func TestNothingIsNotedOfPodsThatAreGone(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.shares("p", 3, "1Gi", "100m", nil)
	w.pod("late", nil, "none") // whose claim does not come
	w.shares("g", 1, "1Gi", "100m", member("g", 2))
	w.eventually("three are placed", func() bool { return w.bound("p") == 3 })
	left := func(kind string) func() bool {
		return func() bool {
			w.plugin.mu.Lock()
			defer w.plugin.mu.Unlock()
			a := &w.plugin.awaits
			all := map[string]int{"pods": len(a.pods), "claims": len(a.users),
				"kept out": len(a.gated), "gangs": len(w.plugin.gangs)}
			return all[kind] == 0
		}
	}
	pod := must(w.client.CoreV1().Pods("default").Get(t.Context(), "g000", metav1.GetOptions{}))
	w.delete("g000", "g000")
	w.delete("late")
	for _, kind := range []string{"pods", "claims", "kept out", "gangs"} {
		w.eventually("no "+kind, left(kind))
	}
	if status := w.plugin.PreEnqueue(t.Context(), pod); status.IsSuccess() {
		t.Error("a deleted pod may be placed")
	}
	for _, kind := range []string{"pods", "claims", "kept out", "gangs"} {
		if !left(kind)() {
			t.Errorf("%s are left", kind)
		}
	}
}
