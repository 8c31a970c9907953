package plugin

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/weirgpu/weir/kube/place"
)

type (
	frameworkHandle = fwk.Handle
	frameworkPlugin = fwk.Plugin
)

// nodes makes the class and nodes "a", "b", "c", … with eight devices each.
func nodes(count int) func(*world) {
	return func(w *world) {
		w.class()
		for i := range count {
			w.node(string(rune('a'+i)), "H200", 8)
		}
	}
}

// The scheduler places each pod where package place alone would, on the devices that it would take,
// pod by pod.
func TestSchedulerPlacesAsTheSimulatorDoes(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.args = `{policy: prices, workload: [{cpu: 1000, count: 1, units: 300, weight: 2}, ` +
			`{cpu: 1000, count: 1, units: 700, weight: 2}, ` +
			`{cpu: 4000, count: 1, units: 1000, weight: 1}]}`
		nodes(5)(w)
	})
	policy, _ := place.Named("prices")
	workload := place.Workload{
		{Request: place.Request{CPU: 1000, Count: 1, Units: 300}, Weight: 2},
		{Request: place.Request{CPU: 1000, Count: 1, Units: 700}, Weight: 2},
		{Request: place.Request{CPU: 4000, Count: 1, Units: 1000}, Weight: 1}}
	var all []place.Node
	for i := range 5 {
		n := place.Node{Name: string(rune('a' + i)), CPU: 64000, Memory: 512 << 30}
		for d := range 8 {
			n.Devices = append(n.Devices, place.Device{Memory: 80 << 30, NUMA: d / 4, Link: -1 - d})
		}
		all = append(all, n)
	}
	alone, err := place.NewCluster(all, place.Options{Policy: policy, Workload: workload})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 90 {
		name := fmt.Sprintf("p%03d", i)
		r := place.Request{CPU: 1000, Count: 1, Units: []int{300, 500, 700, 200, 1000}[i%5],
			DeviceMemory: int64(i%3+1) * 8 << 30}
		wishes := []wish{{memory: fmt.Sprint(r.DeviceMemory), compute: fmt.Sprint(r.Units, "m")}}
		if i%10 == 9 {
			r.Count, r.Units, r.DeviceMemory = 2, place.Whole, 80<<30
			wishes = []wish{{memory: "80Gi", compute: "1"}, {memory: "80Gi", compute: "1"}}
		}
		p, err := alone.Place(r)
		w.claim(name, wishes...)
		w.pod(name, nil, name)
		if err != nil {
			w.eventually("refused "+name, func() bool {
				return w.events.said(name+" ", "short of free devices")
			})
			continue
		}
		w.eventually("bound "+name, func() bool { return w.of(name) != "" })
		var want []string
		for _, d := range p.Devices.Indices() {
			want = append(want, fmt.Sprintf("%s/cuda-%d", all[p.Node].Name, d))
		}
		got := w.devices(name)
		slices.Sort(got)
		if w.of(name) != all[p.Node].Name || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s (%+v) is on %s with %v; place chooses %s with %v", name, r, w.of(name),
				got, all[p.Node].Name, want)
		}
	}
	if over := w.overcommitted(); len(over) > 0 {
		t.Errorf("given out twice: %v", over)
	}
}

// What cannot be now says why, in an event, and is placed when there is room.
func TestWaitingPodIsPlacedWhenThereIsRoom(t *testing.T) {
	w := newWorld(t, nodes(1))
	w.shares("p", 8, "60Gi", "600m", nil)
	w.eventually("eight are bound", func() bool { return w.bound("p") == 8 })
	w.claim("more", wish{memory: "8Gi", compute: "500m"})
	w.pod("more", nil, "more")
	w.eventually("why it waits", func() bool {
		return w.events.said("more ", "of 1 nodes 1 are short of free devices; on those 400 "+
			"units of one device are the most that would fit")
	})
	w.delete("p003", "p003")
	w.eventually("it is placed", func() bool { return w.of("more") == "a" })
	if got := w.devices("more"); len(got) != 1 {
		t.Errorf("it has %v", got)
	}
}

// Labels, taints and selectors of claims decide which nodes may be chosen.
func TestOnlyNodesThatArePermittedAreChosen(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.class()
		w.node("a", "H200", 8)
		w.node("b", "A100", 8)
		n := w.node("c", "H200", 8)
		n.Spec.Taints = []v1.Taint{{Key: "no", Effect: v1.TaintEffectNoSchedule}}
		must(w.client.CoreV1().Nodes().Update(t.Context(), n, updateOptions))
	})
	for i, k := range []struct {
		cel    string
		change func(*v1.Pod)
		node   string
	}{
		{`device.attributes["gpu.weir.dev"].model == "A100"`, nil, "b"},
		{"", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "b"} }, "b"},
		{"", func(p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{"name": "c"}
			p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}, "c"},
		{`device.attributes["gpu.weir.dev"].model == "H200"`, nil, "a"},
	} {
		name := fmt.Sprint("p", i)
		w.claim(name, wish{memory: "8Gi", compute: "100m", cel: k.cel})
		w.pod(name, k.change, name)
		w.eventually(name, func() bool { return w.of(name) == k.node })
	}
	w.claim("x", wish{memory: "8Gi", compute: "100m",
		cel: `device.attributes["gpu.weir.dev"].model == "T4"`})
	w.pod("x", nil, "x")
	w.eventually("no such model", func() bool {
		return w.events.said("x ", "3 are not for this request")
	})
}

// Claims that package place has no words for are allocated by upstream's plug-in, and counted.
func TestOtherClaimsAreUpstreams(t *testing.T) {
	w := newWorld(t, func(w *world) {
		nodes(1)(w)
		c := must(w.client.ResourceV1().DeviceClasses().Get(t.Context(), "gpu.weir.dev",
			getOptions)).DeepCopy()
		c.Name, c.UID, c.ResourceVersion = "cpu.weir.dev", "", ""
		c.Spec.Selectors[0].CEL.Expression = strings.ReplaceAll(
			c.Spec.Selectors[0].CEL.Expression, `"gpu"`, `"cpu"`)
		must(w.client.ResourceV1().DeviceClasses().Create(t.Context(), c, createOptions))
	})
	w.claim("cpu", wish{memory: "8Gi", compute: "500m", class: "cpu.weir.dev"})
	w.pod("cpu", nil, "cpu")
	w.eventually("a share of the CPU", func() bool { return w.of("cpu") == "a" })
	if got := w.devices("cpu"); !slices.Equal(got, []string{"a/cpu-0"}) {
		t.Errorf("it has %v", got)
	}
	w.claim("unlike", wish{memory: "8Gi", compute: "700m"}, wish{memory: "9Gi", compute: "600m"})
	w.pod("unlike", nil, "unlike")
	w.eventually("unlike parts", func() bool { return w.of("unlike") == "a" })
	if got := w.devices("unlike"); len(got) != 2 || got[0] == got[1] {
		t.Errorf("it has %v", got)
	}
	w.shares("p", 6, "80Gi", "1", nil)
	w.eventually("the other six devices", func() bool { return w.bound("p") == 6 })
	w.claim("more", wish{memory: "8Gi", compute: "401m"})
	w.pod("more", nil, "more")
	w.eventually("no more room", func() bool { return w.events.said("more ", "short of free") })
	if over := w.overcommitted(); len(over) > 0 {
		t.Errorf("given out twice: %v", over)
	}
}

// What other schedulers have placed and what is there at the start counts.
func TestWhatIsThereCounts(t *testing.T) {
	w := newWorld(t, func(w *world) {
		nodes(2)(w)
		w.pod("other", func(p *v1.Pod) {
			p.Spec.NodeName = "a"
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("64")
		})
	})
	w.claim("p", wish{memory: "8Gi", compute: "100m"})
	w.pod("p", nil, "p")
	w.eventually("placed where there is CPU", func() bool { return w.of("p") == "b" })
}

// A pod that another plug-in may refuse a node to is placed on the best one that it may have.
func TestOtherPluginsHaveTheirSay(t *testing.T) {
	w := newWorld(t, nodes(4))
	apart := func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "x"}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: antiAffinity}
	}
	for i := range 4 {
		name := fmt.Sprint("p", i)
		w.claim(name, wish{memory: "8Gi", compute: "100m"})
		w.pod(name, apart, name)
		w.eventually(name, func() bool { return w.of(name) == string(rune('a'+i)) })
	}
	// Those that are there keep away one that does not say so itself.
	w.claim("q", wish{memory: "8Gi", compute: "100m"})
	w.pod("q", func(p *v1.Pod) { p.Labels = map[string]string{"app": "x"} }, "q")
	w.eventually("kept away", func() bool { return w.events.said("q ", "anti-affinity") })
	w.delete("p2", "p2")
	w.eventually("the place of one that went", func() bool { return w.of("q") == "c" })
}

// Devices of a pod lie on one NUMA node where it says so.
func TestTopologyIsKept(t *testing.T) {
	w := newWorld(t, nodes(1))
	pair := []wish{{memory: "80Gi", compute: "1"}, {memory: "80Gi", compute: "1"}}
	for i, k := range []struct {
		topology string
		wishes   []wish
		devices  []string
		refused  string
	}{
		{"none", pair[:1], []string{"a/cuda-0"}, ""},
		{"single-numa-node", slices.Repeat(pair, 2), []string{"a/cuda-4", "a/cuda-5", "a/cuda-6",
			"a/cuda-7"}, ""},
		{"restricted", slices.Repeat(pair, 2), nil, "short of free devices"},
		{"best-effort", pair, []string{"a/cuda-1", "a/cuda-2"}, ""},
		{"single", pair, nil, "want none, best-effort, restricted or single-numa-node"},
	} {
		name := fmt.Sprint("p", i)
		w.claim(name, k.wishes...)
		w.pod(name, func(p *v1.Pod) {
			p.Annotations = map[string]string{TopologyAnnotation: k.topology}
		}, name)
		if k.refused != "" {
			w.eventually(name, func() bool { return w.events.said(name+" ", k.refused) })
			continue
		}
		w.eventually(name, func() bool { return w.of(name) == "a" })
		got := w.devices(name)
		slices.Sort(got)
		if !slices.Equal(got, k.devices) {
			t.Errorf("%s: has %v, want %v", k.topology, got, k.devices)
		}
	}
}

// A sick device is not chosen.
func TestSickDeviceIsNotChosen(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.class()
		w.node("a", "H200", 2)
		s := must(w.client.ResourceV1().ResourceSlices().Get(t.Context(), "a-weir", getOptions)).
			DeepCopy()
		s.Spec.Devices[0].Taints = sickness
		must(w.client.ResourceV1().ResourceSlices().Update(t.Context(), s, updateOptions))
	})
	w.claim("p", wish{memory: "8Gi", compute: "100m"})
	w.pod("p", nil, "p")
	w.eventually("placed", func() bool { return w.of("p") == "a" })
	if got := w.devices("p"); !slices.Equal(got, []string{"a/cuda-1"}) {
		t.Errorf("it has %v", got)
	}
}

// What the driver would refuse on the node, as no admission could know it, is refused before a pod
// goes there, with what to write instead.
func TestWhatTheDriverRefusesIsNotPlaced(t *testing.T) {
	w := newWorld(t, nodes(1))
	for name, k := range map[string]struct {
		count    int64
		capacity resourceapi.QualifiedName
		want     string
	}{
		"several": {2, "memory", "write one request a device"},
		"unknown": {1, "cores", "capacity cores: no device of weir has any"},
	} {
		c := &resourceapi.ResourceClaim{}
		c.Name, c.Namespace = name, "default"
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.weir.dev",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: k.count,
				Capacity: &resourceapi.CapacityRequirements{
					Requests: map[resourceapi.QualifiedName]resource.Quantity{
						k.capacity: resource.MustParse("1")}}}}}
		must(w.client.ResourceV1().ResourceClaims("default").Create(t.Context(), c, createOptions))
		w.pod(name, nil, name)
		w.eventually(name, func() bool { return w.events.said(name+" ", k.want) })
		if w.of(name) != "" {
			t.Errorf("%s is placed", name)
		}
	}
}
