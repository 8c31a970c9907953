package plugin

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/share"
)

// claimOf is a claim as far as the driver goes by it; one without an allocation is an error.
func claimOf(c *resourceapi.ResourceClaim) (dra.Claim, error) {
	to := dra.Claim{UID: string(c.UID), Namespace: c.Namespace, Name: c.Name}
	if c.Status.Allocation == nil {
		return to, fmt.Errorf("%v: has no allocation", &to)
	}
	for _, r := range c.Status.ReservedFor {
		if r.Resource == "pods" {
			to.Pods = append(to.Pods, r.Name)
		}
	}
	devices := &c.Status.Allocation.Devices
	for i := range devices.Results {
		r := &devices.Results[i]
		if r.Driver != dra.DriverName {
			continue
		}
		v, err := resultOf(r)
		if err != nil {
			return to, fmt.Errorf("%v: request %s: %w", &to, r.Request, err)
		}
		v.Parameters = parametersOf(devices.Config, r.Request)
		to.Results = append(to.Results, v)
	}
	return to, nil
}

func resultOf(r *resourceapi.DeviceRequestAllocationResult) (dra.Result, error) {
	v := dra.Result{Request: r.Request, Pool: r.Pool, Device: r.Device,
		Admin: r.AdminAccess != nil && *r.AdminAccess}
	if r.ShareID != nil {
		v.ShareID = string(*r.ShareID)
	}
	memory, compute := r.ConsumedCapacity[dra.CapacityMemory],
		r.ConsumedCapacity[dra.CapacityCompute]
	v.Memory = share.Bytes(memory.Value())
	milli := compute.MilliValue()
	if milli < 0 || milli > dra.Whole {
		return v, fmt.Errorf("%s of %s: want 0 to 1", dra.CapacityCompute, compute.String())
	}
	v.Compute = int(milli)
	return v, nil
}

// parametersOf are the driver's parameters for a request, the class's before the claim's.
func parametersOf(all []resourceapi.DeviceAllocationConfiguration, request string) [][]byte {
	main, _, _ := strings.Cut(request, "/")
	var texts [][]byte
	for _, source := range []resourceapi.AllocationConfigSource{
		resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim} {
		for i := range all {
			c := &all[i]
			if c.Source == source && c.Opaque != nil && c.Opaque.Driver == dra.DriverName &&
				(len(c.Requests) == 0 || slices.Contains(c.Requests, request) ||
					slices.Contains(c.Requests, main)) {
				texts = append(texts, c.Opaque.Parameters.Raw)
			}
		}
	}
	return texts
}

// maxDevices is how many devices with taints one slice can have (resource.k8s.io/v1,
// ResourceSliceMaxDevicesWithTaintsOrConsumesCounters).
const maxDevices = 64

// poolOf is what the cluster is told of devices.
func poolOf(devices []dra.Device) resourceslice.Pool {
	var pool resourceslice.Pool
	for part := range slices.Chunk(devices, maxDevices) {
		var s resourceslice.Slice
		for i := range part {
			s.Devices = append(s.Devices, deviceOf(&part[i]))
		}
		pool.Slices = append(pool.Slices, s)
	}
	return pool
}

func deviceOf(d *dra.Device) resourceapi.Device {
	shared, none := true, resource.MustParse("0")
	to := resourceapi.Device{
		Name:                     d.Name,
		AllowMultipleAllocations: &shared,
		Attributes:               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			// A claim that names no memory takes all of it.
			dra.CapacityMemory: {Value: *resource.NewQuantity(int64(d.Memory), resource.BinarySI)},
			// One that names no compute has none guaranteed. There is no step: upstream computes
			// steps in whole numbers, which rounds thousandths up to one.
			dra.CapacityCompute: {Value: resource.MustParse("1"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &none,
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &none}}},
		},
	}
	for name, v := range d.Attributes {
		to.Attributes[resourceapi.QualifiedName(name)] = attributeOf(v)
	}
	for _, s := range d.Sick {
		to.Taints = append(to.Taints, resourceapi.DeviceTaint{Key: s.Key,
			Effect: resourceapi.DeviceTaintEffectNoSchedule})
	}
	return to
}

func attributeOf(v any) (to resourceapi.DeviceAttribute) {
	switch v := v.(type) {
	case string:
		to.StringValue = &v
	case int64:
		to.IntValue = &v
	case bool:
		to.BoolValue = &v
	}
	return to
}
