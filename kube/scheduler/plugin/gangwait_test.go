package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// A gang whose missing members another scheduler has placed, or this one before it was started
// again, is whole: those that wait are placed.
func TestGangIsWholeWithThoseOnNodes(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.shares("g", 2, "8Gi", "100m", member("g", 3))
	w.shares("s", 1, "8Gi", "100m", nil)
	w.eventually("a single one is placed", func() bool { return w.bound("s") == 1 })
	w.pod("other", func(p *v1.Pod) {
		member("g", 3)(p)
		p.Spec.NodeName = "a"
	})
	w.eventually("the gang is placed", func() bool { return w.bound("g") == 2 })
}

// What lets a gang have room without anybody giving any back is noticed, too: a class that is made,
// a taint that is taken, a label.
func TestGangIsPlacedWhenNothingWasGivenBack(t *testing.T) {
	w := newWorld(t, func(w *world) { w.node("a", "H200", 8) })
	w.shares("g", 2, "8Gi", "100m", member("g", 2))
	w.eventually("no class", func() bool { return w.events.said("g00", "not found") })
	w.class()
	w.eventually("the gang is placed", func() bool { return w.bound("g") == 2 })

	n := must(w.client.CoreV1().Nodes().Get(t.Context(), "a", getOptions)).DeepCopy()
	n.Spec.Taints = []v1.Taint{{Key: "node.kubernetes.io/not-ready",
		Effect: v1.TaintEffectNoSchedule}}
	n = must(w.client.CoreV1().Nodes().Update(t.Context(), n, updateOptions)).DeepCopy()
	w.eventually("the taint is known", func() bool {
		w.plugin.mu.Lock()
		defer w.plugin.mu.Unlock()
		return w.plugin.tainted["a"]
	})
	w.shares("h", 2, "8Gi", "100m", member("h", 2))
	w.eventually("why it waits", func() bool {
		return w.events.said("h00", "not for this request")
	})
	n.Spec.Taints = nil
	must(w.client.CoreV1().Nodes().Update(t.Context(), n, updateOptions))
	w.eventually("the gang is placed", func() bool { return w.bound("h") == 2 })

	labelled := func(p *v1.Pod) {
		member("l", 2)(p)
		p.Spec.NodeSelector = map[string]string{"pool": "gangs"}
	}
	w.shares("l", 2, "8Gi", "100m", labelled)
	w.eventually("why it waits", func() bool {
		return w.events.said("l00", "not for this request")
	})
	n = must(w.client.CoreV1().Nodes().Get(t.Context(), "a", getOptions)).DeepCopy()
	n.Labels["pool"] = "gangs"
	must(w.client.CoreV1().Nodes().Update(t.Context(), n, updateOptions))
	w.eventually("the gang is placed", func() bool { return w.bound("l") == 2 })
}

// A gang that has lost a member since the others were let into the queue has no seats.
func TestGangThatLostAMemberHasNoSeats(t *testing.T) {
	p, pods := bareGang(t, 3)
	p.podGone(pods[2])
	if err := p.seatGang(gangOf(pods[0]), pods[0]); err == nil ||
		!strings.Contains(err.Error(), "2 of 3 members are there") {
		t.Error(err)
	}
	for _, pod := range pods {
		if h, ok := p.live.Held(seatKey(string(pod.UID))); ok {
			t.Errorf("%s has a seat: %v", pod.Name, h)
		}
	}
}

// bareGang is a node, and a gang whose members have come.
func bareGang(t *testing.T, size int) (*Plugin, []*v1.Pod) {
	p := bare(t)
	p.nodeIs(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.NodeStatus{
		Allocatable: v1.ResourceList{"cpu": resource.MustParse("8"),
			"memory": resource.MustParse("8Gi")}}})
	var pods []*v1.Pod
	for i := range size {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("p", i),
			UID: types.UID(fmt.Sprint("u", i))}}
		member("g", size)(pod)
		pods = append(pods, pod)
		_, _ = p.arrives(gangOf(pod), pod)
	}
	t.Cleanup(func() { p.gangs["n/g"].stop() })
	return p, pods
}

// allOfNode holds all devices of node a.
func allOfNode() live.Holder {
	full := live.Holder{Key: "full", Node: "a"}
	for i := range 8 {
		full.Parts = append(full.Parts, live.Part{Devices: []string{fmt.Sprint("cuda-", i)},
			Request: place.Request{Count: 1, Units: place.Whole}})
	}
	return full
}

// When one member of a gang finds room for all, the others are tried at once, whatever they wait
// for.
func TestSeatsBringAllMembers(t *testing.T) {
	w := newWorld(t, nodes(1))
	p := w.plugin
	full := allOfNode()
	p.mu.Lock()
	p.live.Hold(full)
	p.mu.Unlock()
	w.shares("g", 3, "8Gi", "100m", member("g", 3))
	w.eventually("all wait", func() bool {
		return w.events.said("g000 ", "no room") && w.events.said("g001 ", "no room") &&
			w.events.said("g002 ", "no room")
	})
	p.mu.Lock()
	p.live.Drop("full")
	p.mu.Unlock()
	w.eventually("one is tried", func() bool {
		one := must(w.client.CoreV1().Pods("default").Get(t.Context(), "g001", getOptions))
		p.handle.Activate(p.log(), map[string]*v1.Pod{"default/g001": one})
		return w.bound("g") == 3
	})
}

// Other plug-ins that refuse nodes to some members, which this one has no words for, do not keep a
// gang from its places on other nodes.
func TestGangGoesWhereOtherPluginsLetIt(t *testing.T) {
	const size = 6
	w := newWorld(t, func(w *world) {
		w.class()
		for i := range size {
			n := w.node(string(rune('a'+i)), "H200", 8)
			n.Status.Allocatable["pods"] = resource.MustParse("1")
			must(w.client.CoreV1().Nodes().Update(t.Context(), n, updateOptions))
		}
	})
	w.shares("g", size, "8Gi", "100m", member("g", size))
	w.eventually("the gang is placed", func() bool { return w.bound("g") == size })
}

// gate is a plug-in that holds pods back between this one's Permit and the framework's wait.
type gate struct {
	at   chan types.UID
	open chan struct{}
}

func (*gate) Name() string { return "Gate" }

func (g *gate) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status,
	time.Duration) {
	if pod.Annotations[GangAnnotation] != "" {
		select {
		case g.at <- pod.UID:
			<-g.open
		case <-g.open:
		case <-ctx.Done():
		}
	}
	return nil, 0
}

// A deadline that comes while a member is on its way to wait has it give back its place, too.
func TestDeadlineMeetsAMemberOnItsWay(t *testing.T) {
	g := &gate{at: make(chan types.UID), open: make(chan struct{})}
	w := newWorld(t, func(w *world) {
		w.gate = g
		nodes(1)(w)
	})
	w.shares("g", 2, "8Gi", "100m", func(p *v1.Pod) {
		member("g", 2)(p)
		p.Annotations[GangDeadlineAnnotation] = "1s"
	})
	<-g.at
	w.eventually("the deadline", func() bool {
		w.plugin.mu.Lock()
		defer w.plugin.mu.Unlock()
		to := w.plugin.gangs["default/g"]
		return to != nil && to.timer == nil
	})
	close(g.open)
	w.eventually("the gang is placed", func() bool { return w.bound("g") == 2 })
}

// Members that are deleted while one is on its way to wait leave nothing of their places behind.
func TestMembersDeletedOnTheirWayHoldNothing(t *testing.T) {
	g := &gate{at: make(chan types.UID), open: make(chan struct{})}
	w := newWorld(t, func(w *world) {
		w.gate = g
		nodes(1)(w)
	})
	w.shares("g", 3, "80Gi", "1", member("g", 3))
	<-g.at
	for i := range 3 {
		w.delete(fmt.Sprintf("g%03d", i))
	}
	w.eventually("all are gone", func() bool {
		w.plugin.mu.Lock()
		defer w.plugin.mu.Unlock()
		return w.plugin.gangs["default/g"] == nil
	})
	close(g.open)
	w.eventually("all devices are free", func() bool {
		w.plugin.mu.Lock()
		defer w.plugin.mu.Unlock()
		_, used, err := w.plugin.live.Units()
		return err == nil && used == 0 && len(w.plugin.doomed) == 0
	})
}

// A member that is deleted before it comes to wait is not counted among those of its name that come
// later.
func TestDeletedMemberIsNotCounted(t *testing.T) {
	p := bare(t)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	member("g", 2)(pod)
	_, _ = p.arrives(gangOf(pod), pod)
	p.podGone(pod)
	if err := p.seatGang(gangOf(pod), pod); err == nil {
		t.Error("it has a seat")
	}
	if status, _ := p.Permit(t.Context(), nil, pod, "a"); status.Code() != fwk.Unschedulable {
		t.Errorf("it waits for others: %v", status)
	}
	if len(p.gangs) != 0 {
		t.Errorf("of its gang there is %+v", p.gangs["n/g"])
	}
}

// Of a claim that several members share the first to be placed would have it, and only when all
// are: that is said, and holds nothing.
func TestGangThatSharesAClaimSaysSo(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.claim("shared", wish{memory: "8Gi", compute: "100m"})
	for i := range 2 {
		w.pod(fmt.Sprint("g", i), member("g", 2), "shared")
	}
	for i := range 2 {
		w.eventually("why it waits", func() bool {
			return w.events.said(fmt.Sprintf("g%d ", i), "gang default/g", "claim shared")
		})
	}
}

// Places that were taken from members are taken once: what they give back late takes nothing from
// seats that the gang has had since.
func TestLateLossTakesNoNewSeats(t *testing.T) {
	p, pods := bareGang(t, 3)
	seat := func(pod *v1.Pod) {
		t.Helper()
		if err := p.seatGang(gangOf(pod), pod); err != nil {
			t.Fatal(err)
		}
		if status, _ := p.Permit(t.Context(), nil, pod, "a"); status.Code() != fwk.Wait {
			t.Fatal(status)
		}
	}
	seat(pods[0])
	seat(pods[1])
	p.scatter(p.gangs["n/g"], "the deadline")
	seat(pods[0])
	if r := p.loses(pods[1], "a member lost its place"); r != nil {
		t.Errorf("%v lose their places by what was lost before", r.pods)
	}
	if _, ok := p.live.Held(seatKey("u2")); !ok || !p.gangs["n/g"].waiting["u0"] {
		t.Errorf("of the new seats: %v", slices.Collect(maps.Keys(p.gangs["n/g"].waiting)))
	}
}

// Claims for other drivers' devices are upstream's, whether weir's nodes have such devices or not.
func TestOtherDriversDevicesAreUpstreams(t *testing.T) {
	w := newWorld(t, func(w *world) {
		nodes(2)(w)
		w.nic("b")
	})
	w.claim("nic", wish{class: "nic.example.com"})
	w.pod("nic", nil, "nic")
	w.eventually("another driver's device", func() bool { return w.of("nic") == "b" })
	w.claim("both", wish{class: "gpu.weir.dev", memory: "8Gi", compute: "100m"})
	w.pod("both", nil, "both", "nic")
	w.eventually("both drivers' devices", func() bool { return w.of("both") == "b" })
}

var _ fwk.PermitPlugin = &gate{}

// A pod that was refused a moment before the plug-in was told of the room that the scheduler's
// queue knew of is tried again, though the queue is told of nothing more.
func TestTriedTooEarly(t *testing.T) {
	w := newWorld(t, nodes(1))
	p := w.plugin
	full := allOfNode()
	hold := func(f func()) func() {
		return func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			f()
		}
	}
	for round, name := range []string{"s", "r", "q"} { // the later ones within calm of the first
		p.told(hold(func() { p.live.Hold(full) }))
		w.shares(name, 1, "8Gi", "100m", nil)
		w.eventually("it waits", func() bool { return w.events.said(name+"000 ", "no room") })
		p.told(hold(func() { p.live.Drop("full") }))
		w.eventually(fmt.Sprint("it is placed, ", round), func() bool { return w.bound(name) == 1 })
	}
}
