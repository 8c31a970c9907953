package short

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weirgpu/weir/kube/dra"
)

// asking is a pod as admission leaves it.
func asking(name, template string, notes ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name),
		Annotations: map[string]string{}}}
	for i := 0; i < len(notes); i += 2 {
		p.Annotations[dra.AnnotationPrefix+notes[i]] = notes[i+1]
	}
	p.Status.Phase = v1.PodPending
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: dra.ShortClaim,
		ResourceClaimTemplateName: &template}}
	return p
}

const eight = "weir-8gi-300m-500m-latency-burstable"

func eightGiB(name string) *v1.Pod {
	return asking(name, eight, "memory", "8Gi", "compute", "300m", "limit", "500m", "class",
		"latency", "qos", "Burstable")
}

func made(t *testing.T, c *fake.Clientset) (names []string,
	all []resourceapi.ResourceClaimTemplate) {
	t.Helper()
	l, err := c.ResourceV1().ResourceClaimTemplates("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Items {
		names = append(names, l.Items[i].Namespace+"/"+l.Items[i].Name)
	}
	return names, l.Items
}

func newMaker(c *fake.Clientset) *maker {
	return &maker{Options: Options{Client: c, Every: time.Second, Unused: time.Minute,
		Log: slog.New(slog.DiscardHandler)}, told: map[string]string{}}
}

func TestTemplateOfWhatAPodAsksFor(t *testing.T) {
	c := fake.NewClientset()
	m := newMaker(c)
	for range 2 { // the second pod finds it there
		if err := m.serve(t.Context(), eightGiB("p"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	names, all := made(t, c)
	if len(names) != 1 || names[0] != "ns/"+eight {
		t.Fatalf("made %v", names)
	}
	d := all[0].Spec.Spec.Devices
	r := d.Requests[0].Exactly
	memory, compute := r.Capacity.Requests["memory"], r.Capacity.Requests["compute"]
	if len(d.Requests) != 1 || r.DeviceClassName != "gpu.weir.dev" || memory.Value() != 8<<30 ||
		compute.MilliValue() != 300 {
		t.Errorf("requests %+v", d.Requests)
	}
	if len(d.Config) != 1 || d.Config[0].Opaque.Driver != "gpu.weir.dev" {
		t.Fatalf("config %+v", d.Config)
	}
	p, err := dra.ParseParameters(dra.Parameters{}, d.Config[0].Opaque.Parameters.Raw)
	if err != nil || p.Limit != 500 || p.QoS != dra.Burstable || p.Class.String() != "latency" {
		t.Errorf("parameters %+v, %v", p, err)
	}
}

func TestAWholeDeviceNeedsNoCapacity(t *testing.T) {
	c := fake.NewClientset()
	p := asking("p", "weir-any-any-any-opportunistic-any", "class", "opportunistic")
	if err := newMaker(c).serve(t.Context(), p, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, all := made(t, c)
	if len(all) != 1 || all[0].Spec.Spec.Devices.Requests[0].Exactly.Capacity != nil {
		t.Errorf("made %+v", all)
	}
}

// TestNothingIsMadeForOthers has pods that wait for no template of this form, or for one whose name
// is not that of what they ask for, which would be found by others later.
func TestNothingIsMadeForOthers(t *testing.T) {
	has, whole := eightGiB("has"), eight
	has.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: dra.ShortClaim,
		ResourceClaimName: &whole}}
	direct := eightGiB("direct")
	direct.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: dra.ShortClaim,
		ResourceClaimName: &whole}
	other := eightGiB("other")
	other.Spec.ResourceClaims[0].Name = "mine"
	c := fake.NewClientset()
	for _, p := range []*v1.Pod{has, direct, other, {},
		asking("poison", eight, "memory", "1Gi"),
		asking("wrong", "weir-x-any-any-any-any", "memory", "x"),
		asking("none", "weir-any-any-any-any-any")} {
		if err := newMaker(c).serve(t.Context(), p, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if names, _ := made(t, c); len(names) != 0 {
		t.Errorf("made %v", names)
	}
}

func TestUnneededTemplatesGo(t *testing.T) {
	now := time.Now()
	old := func(name string, age time.Duration, labels map[string]string) runtime.Object {
		return &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name,
			Namespace: "ns", Labels: labels, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	ours := map[string]string{Label: ""}
	c := fake.NewClientset(old("weir-1gi-any-any-any-any", 2*time.Minute, ours),
		old("young", 30*time.Second, ours), old("others", time.Hour, nil),
		old(eight, time.Hour, ours))
	if err := newMaker(c).look(t.Context(), []any{eightGiB("p")}, now); err != nil {
		t.Fatal(err)
	}
	names, _ := made(t, c)
	if want := "ns/others ns/" + eight + " ns/young"; strings.Join(names, " ") != want {
		t.Errorf("left %v, want %s", names, want)
	}
	// The pod that needs one finds it again whoever took it.
	if err := c.Tracker().Delete(resourceapi.SchemeGroupVersion.WithResource(
		"resourceclaimtemplates"), "ns", eight); err != nil {
		t.Fatal(err)
	}
	if err := newMaker(c).look(t.Context(), []any{eightGiB("p")}, now); err != nil {
		t.Fatal(err)
	}
	if names, _ := made(t, c); len(names) != 3 {
		t.Errorf("after one was taken: %v", names)
	}
}

// TestWhatTheServerRefusesIsTold holds that a pod is told once, and that what may pass is tried
// again.
func TestWhatTheServerRefusesIsTold(t *testing.T) {
	c := fake.NewClientset()
	var answer error = apierrors.NewForbidden(resourceapi.Resource("resourceclaimtemplates"), eight,
		errors.New("limit is below compute"))
	c.PrependReactor("create", "resourceclaimtemplates",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
	m := newMaker(c)
	for range 2 {
		if err := m.serve(t.Context(), eightGiB("p"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	l, err := c.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(l.Items) != 1 || l.Items[0].InvolvedObject.Name != "p" ||
		!strings.Contains(l.Items[0].Message, "limit is below compute") {
		t.Errorf("%v, %+v", err, l.Items)
	}
	answer = apierrors.NewServiceUnavailable("later")
	if err := m.serve(t.Context(), eightGiB("p"), time.Now()); err == nil {
		t.Error("what may pass is taken for done")
	}
}

// TestRunServesPodsThatCome runs all of it.
func TestRunServesPodsThatCome(t *testing.T) {
	c := fake.NewClientset()
	ctx, stop := context.WithCancel(t.Context())
	there := make(chan struct{}, 8)
	c.PrependReactor("create", "resourceclaimtemplates",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			there <- struct{}{}
			return false, nil, nil
		})
	_, err := c.CoreV1().Pods("ns").Create(ctx, eightGiB("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Client: c, Every: time.Hour, Unused: time.Minute,
			Log: slog.New(slog.DiscardHandler)})
	}()
	<-there
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
