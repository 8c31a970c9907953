package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/weirgpu/weir/kube/dra"
)

const usual = `{policy: prices, workload: [{cpu: 1000, count: 1, units: 300, weight: 3}, ` +
	`{cpu: 1000, count: 1, units: 1000, weight: 1}]}`

func usualArgs() *Args {
	return &Args{Policy: "prices", Driver: dra.DriverName, Workload: []Typical{
		{CPU: 1000, Count: 1, Units: 300, Weight: 3},
		{CPU: 1000, Count: 1, Units: 1000, Weight: 1}}}
}

// asks is a pod with a template for its claim.
func asks(w *Wish, name, memory, compute string, change func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: &name}}
	if change != nil {
		change(pod)
	}
	w.Pods = append(w.Pods, pod)
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name,
		Namespace: "default"}}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.weir.dev", Count: 1,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount,
			Capacity: &resourceapi.CapacityRequirements{
				Requests: map[resourceapi.QualifiedName]resource.Quantity{
					"memory":  resource.MustParse(memory),
					"compute": resource.MustParse(compute)}}}}}
	w.Templates = append(w.Templates, t)
}

// answers are WhatIf's of a world.
func (w *world) answers(wish *Wish) []Answer {
	return must(WhatIf(w.t.Context(), w.client, usualArgs(), wish))
}

// TestWhatIfSaysWhereTheSchedulerPlaces asks before each pod where it would go, and of all at once.
func TestWhatIfSaysWhereTheSchedulerPlaces(t *testing.T) {
	w := newWorld(t, func(w *world) { w.args = usual; nodes(3)(w) })
	shapes := [][2]string{{"8Gi", "300m"}, {"80Gi", "1"}, {"20Gi", "100m"}, {"40Gi", "500m"},
		{"8Gi", "700m"}}
	all := &Wish{}
	for i := range 20 {
		s := shapes[i%len(shapes)]
		asks(all, fmt.Sprintf("p%02d", i), s[0], s[1], nil)
	}
	whole := w.answers(all)
	for i := range 20 {
		s, name := shapes[i%len(shapes)], fmt.Sprintf("p%02d", i)
		one := &Wish{}
		asks(one, name, s[0], s[1], nil)
		a := w.answers(one)[0]
		w.claim(name, wish{memory: s[0], compute: s[1]})
		w.pod(name, nil, name)
		w.eventually(name, func() bool { return w.of(name) != "" })
		got := w.devices(name)
		want := a.Node + "/" + strings.Join(a.Devices, " ")
		if w.of(name) != a.Node || len(got) != 1 || got[0] != want {
			t.Errorf("%s is on %s, %v: what-if said %+v", name, w.of(name), got, a)
		}
		if whole[i].Node != a.Node || !slices.Equal(whole[i].Devices, a.Devices) {
			t.Errorf("%s: of all at once %+v, alone %+v", name, whole[i], a)
		}
	}
}

func TestWhatIfSaysWhy(t *testing.T) {
	w := newWorld(t, nodes(1))
	wish := &Wish{}
	asks(wish, "large", "81Gi", "1", nil)
	asks(wish, "alone", "8Gi", "100m", member("g", 2))
	asks(wish, "wrong", "8Gi", "100m", func(p *v1.Pod) {
		p.Annotations = map[string]string{TopologyAnnotation: "near"}
	})
	asks(wish, "fits", "8Gi", "100m", nil)
	a := w.answers(wish)
	for i, want := range []string{"no room", "1 of 2 members", "want none, best-effort", ""} {
		if (a[i].Node != "") != (want == "") || !strings.Contains(a[i].Why, want) {
			t.Errorf("%+v: want %q", a[i], want)
		}
	}
	lost := &Wish{}
	asks(lost, "lost", "8Gi", "100m", nil)
	lost.Templates = nil
	if _, err := WhatIf(t.Context(), w.client, usualArgs(), lost); err == nil {
		t.Error("a template that is not there is found")
	}
}

// TestWhatIfNamesWhoHasToGo has a full node with opportunistic claims.
func TestWhatIfNamesWhoHasToGo(t *testing.T) {
	w := newWorld(t, nodes(1))
	for i := range 8 {
		name := fmt.Sprint("o", i)
		w.claim(name, wish{memory: "80Gi", compute: "1", parameters: `"class": "opportunistic"`})
		w.pod(name, nil, name)
		w.eventually(name, func() bool { return w.of(name) == "a" })
	}
	must(w.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7}, metav1.CreateOptions{}))
	q := &Wish{}
	for _, name := range []string{"first", "second"} {
		asks(q, name, "80Gi", "1", func(p *v1.Pod) { p.Spec.PriorityClassName = "high" })
	}
	asks(q, "equal", "80Gi", "1", nil)
	a := w.answers(q)
	for i := range 2 {
		if a[i].Node != "a" || len(a[i].Victims) != 1 || len(a[i].Devices) != 1 {
			t.Errorf("%+v", a[i])
		}
	}
	if slices.Equal(a[0].Victims, a[1].Victims) || slices.Equal(a[0].Devices, a[1].Devices) {
		t.Errorf("both have the same: %+v", a)
	}
	if a[2].Node != "" || a[2].Why == "" {
		t.Errorf("%+v", a[2])
	}
	if n := w.bound("o"); n != 8 {
		t.Errorf("%d of 8 are left: it is to change nothing", n)
	}
}

func TestWhatIfTakesGangsAndAnnotations(t *testing.T) {
	w := newWorld(t, nodes(1))
	q := &Wish{}
	for i := range 2 {
		asks(q, fmt.Sprint("g", i), "80Gi", "1", member("g", 2))
	}
	brief := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "brief", Namespace: "default",
		Annotations: map[string]string{"weir.dev/memory": "8Gi", "weir.dev/compute": "300m"}}}
	named := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "named", Namespace: "default"}}
	named.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "d", ResourceClaimName: ptr.To("d")}}
	q.Claims = []*resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "d",
		Namespace: "default"}, Spec: q.Templates[0].Spec.Spec}}
	q.Pods = append(q.Pods, brief, named)
	for _, a := range w.answers(q) {
		if a.Node != "a" || len(a.Devices) != 1 {
			t.Errorf("%+v", a)
		}
	}
}
