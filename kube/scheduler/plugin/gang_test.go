package plugin

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var (
	getOptions    = metav1.GetOptions{}
	createOptions = metav1.CreateOptions{}
	updateOptions = metav1.UpdateOptions{}
	sickness      = []resourceapi.DeviceTaint{{Key: "gpu.weir.dev/agent-gone",
		Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	antiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.
			PodAffinityTerm{{TopologyKey: "name",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}}}
)

func member(name string, size int) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Annotations = map[string]string{GangAnnotation: name,
			GangSizeAnnotation: fmt.Sprint(size), GangDeadlineAnnotation: "30s"}
	}
}

func TestGangIsPlacedWhole(t *testing.T) {
	w := newWorld(t, nodes(2))
	w.shares("g", 11, "80Gi", "1", member("g", 12))
	w.shares("s", 3, "80Gi", "1", nil)
	w.eventually("single ones are placed", func() bool { return w.bound("s") == 3 })
	if n := w.bound("g"); n != 0 {
		t.Fatalf("%d of an incomplete gang are placed", n)
	}
	w.claim("g011", wish{memory: "80Gi", compute: "1"})
	w.pod("g011", member("g", 12), "g011")
	w.eventually("the gang is placed", func() bool { return w.bound("g") == 12 })
	if over := w.overcommitted(); len(over) > 0 {
		t.Errorf("given out twice: %v", over)
	}
}

// A gang that has no room takes none of it, says why, and is placed when there is.
func TestGangWithoutRoomTakesNone(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.shares("s", 2, "80Gi", "1", nil)
	w.eventually("single ones are placed", func() bool { return w.bound("s") == 2 })
	w.shares("g", 7, "80Gi", "1", member("g", 7))
	w.eventually("why it waits", func() bool {
		return w.events.said("g00", "gang default/g: member 7 of 7: no room",
			"short of free devices")
	})
	if n := w.bound("g"); n != 0 {
		t.Fatalf("%d of a gang without room are placed", n)
	}
	w.shares("t", 1, "80Gi", "1", nil)
	w.eventually("others have the room", func() bool { return w.bound("t") == 1 })
	w.delete("s000", "s000")
	w.delete("t000", "t000")
	w.eventually("the gang is placed", func() bool { return w.bound("g") == 7 })
}

func TestGangThatCannotBeSaysSo(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.claim("p", wish{memory: "8Gi", compute: "1"})
	w.pod("p", func(p *v1.Pod) {
		p.Annotations = map[string]string{GangAnnotation: "g", GangSizeAnnotation: "many"}
	}, "p")
	w.claim("q", wish{memory: "8Gi", compute: "1"})
	w.pod("q", nil, "q")
	w.eventually("the next one is placed", func() bool { return w.of("q") == "a" })
	if w.of("p") != "" {
		t.Error("it is placed")
	}
}

// priority makes a pod important.
func priority(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Priority = ptr.To(n) }
}

// Opportunistic claims give way to higher priority, and to nobody else.
func TestOpportunisticClaimsGiveWay(t *testing.T) {
	w := newWorld(t, nodes(1))
	for i := range 8 {
		name := fmt.Sprint("o", i)
		parameters := `"class": "opportunistic"`
		if i%2 == 1 {
			parameters = `"class": "standard"`
		}
		w.claim(name, wish{memory: "60Gi", compute: "600m", parameters: parameters})
		w.pod(name, nil, name)
		w.eventually(name, func() bool { return w.of(name) == "a" })
	}
	w.claim("low", wish{memory: "40Gi", compute: "1"})
	w.pod("low", nil, "low")
	w.eventually("an equal one waits", func() bool {
		return w.events.said("low ", "nobody who yields to priority 0")
	})
	w.claim("high", wish{memory: "40Gi", compute: "800m"})
	w.pod("high", priority(100), "high")
	w.eventually("one is told to go, and goes", func() bool {
		return w.events.said("Preempted") && w.bound("o") == 7
	})
	victim := ""
	for i := range 8 {
		if w.of(fmt.Sprint("o", i)) == "" {
			victim = fmt.Sprint("o", i)
			if i%2 == 1 {
				t.Errorf("%s is gone, which is standard", victim)
			}
		}
	}
	if w.of("high") != "" {
		t.Error("it is placed while the claim is not free")
	}
	w.free(victim)
	w.eventually("it is placed", func() bool { return w.of("high") == "a" })
	if n := w.bound("o"); n != 7 {
		t.Errorf("%d of 8 are left", n)
	}
	if over := w.overcommitted(); len(over) > 0 {
		t.Errorf("given out twice: %v", over)
	}
}

// Of two namespaces that ask for more than there is, each is served in turn.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWorld(t, nodes(1))
	p := w.plugin
	tags := map[string][]float64{}
	for i := range 6 {
		for _, namespace := range []string{"first", "second"} {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
				UID: types.UID(fmt.Sprint(namespace, i))}}
			if namespace == "first" || i > 2 {
				tags[namespace] = append(tags[namespace], p.tag(pod))
			}
		}
	}
	if tags["second"][0] != tags["first"][0] || tags["second"][1] != tags["first"][1] {
		t.Errorf("a namespace that comes later waits for all of another's: %v", tags)
	}
}
