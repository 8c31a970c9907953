package why

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/weirgpu/weir/kube/dra"
)

func amounts(memory, compute string) map[resourceapi.QualifiedName]resource.Quantity {
	m := map[resourceapi.QualifiedName]resource.Quantity{}
	if memory != "" {
		m[dra.CapacityMemory] = resource.MustParse(memory)
	}
	m[dra.CapacityCompute] = resource.MustParse(compute)
	return m
}

// slice is that of a node with one GPU of 16 GiB.
func slice(node string, taints ...resourceapi.DeviceTaint) *resourceapi.ResourceSlice {
	kind := "gpu"
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.Spec.Driver, s.Spec.Pool.Name = dra.DriverName, node
	s.Spec.Devices = []resourceapi.Device{{Name: "cuda-0", Taints: taints,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"type": {StringValue: &kind}},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			dra.CapacityMemory:  {Value: resource.MustParse("16Gi")},
			dra.CapacityCompute: {Value: resource.MustParse("1")}}}}
	return s
}

// waiting is a pod that the scheduler found no node for, with its claim.
func waiting(name, class, memory, compute string) (*v1.Pod, *resourceapi.ResourceClaim) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	p.Status.Phase = v1.PodPending
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse,
		Reason: v1.PodReasonUnschedulable}}
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class,
			Capacity: &resourceapi.CapacityRequirements{Requests: amounts(memory, compute)}}}}
	return p, c
}

// given is a claim that has a part of a node's device.
func given(node, memory, compute string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "of-" + node + memory,
		Namespace: "ns"}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{
		Driver: dra.DriverName, Pool: node, Device: "cuda-0",
		ConsumedCapacity: amounts(memory, compute)}}
	return c
}

// TestPodsAreToldWhyTheyWait looks at pods that wait for reasons of all kinds, twice: each is told
// once, and again when the reason is another or some time has gone by.
func TestPodsAreToldWhyTheyWait(t *testing.T) {
	sick := resourceapi.DeviceTaint{Key: dra.AgentGone}
	objects := []runtime.Object{slice("n1"), slice("n2", sick), given("n1", "6Gi", "300m"),
		given("n1", "4Gi", "200m")}
	want := map[string]string{
		"large": dra.NeverFits, "late": dra.NoRoom, "busy": dra.NoRoom, "whole": dra.NoRoom,
		"cpu": dra.NoDevices}
	for name, w := range map[string][3]string{
		"large": {dra.DriverName, "17Gi", "0"}, "late": {dra.DriverName, "7Gi", "0"},
		"busy": {dra.DriverName, "1Gi", "501m"}, "whole": {dra.DriverName, "", "0"},
		"cpu": {dra.CPUClass, "1Gi", "0"}, "fits": {dra.DriverName, "6Gi", "500m"},
		"other": {"other.example.com", "99Gi", "0"},
	} {
		p, c := waiting(name, w[0], w[1], w[2])
		objects = append(objects, p, c)
	}
	running, claim := waiting("has-a-node", dra.DriverName, "17Gi", "0")
	running.Status.Conditions[0].Status = v1.ConditionTrue
	client := fake.NewClientset(append(objects, running, claim)...)
	w := watcher{Options{Client: client, Again: time.Minute, Log: slog.New(slog.DiscardHandler)},
		map[string]told{}}
	events := func() map[string][]string {
		l, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]string{}
		for _, e := range l.Items {
			if !strings.Contains(e.Message, "claim "+e.InvolvedObject.Name+", request gpu: ") {
				t.Errorf("%s: %s", e.InvolvedObject.Name, e.Message)
			}
			all[e.InvolvedObject.Name] = append(all[e.InvolvedObject.Name], e.Reason)
		}
		return all
	}
	now := time.Unix(1e9, 0)
	for _, after := range []time.Duration{0, time.Second, 2 * time.Minute} {
		if err := w.look(t.Context(), now.Add(after)); err != nil {
			t.Fatal(err)
		}
		times := 1 + int(after/(2*time.Minute))
		got := events()
		for name, reason := range want {
			if len(got[name]) != times || got[name][0] != reason {
				t.Errorf("after %v: %s: %v, want %d of %s", after, name, got[name], times, reason)
			}
		}
		if len(got) != len(want) {
			t.Errorf("told are %v", got)
		}
	}
	// One that the device was too full for is told of another reason when there is more room.
	if err := client.ResourceV1().ResourceClaims("ns").Delete(t.Context(), "of-n14Gi",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.look(t.Context(), now.Add(121*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := events(); len(got["late"]) != 2 || len(got["whole"]) != 3 || len(w.told) != 7 {
		t.Errorf("told are %v, of %d", got, len(w.told))
	}
}
