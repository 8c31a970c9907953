package plugin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/place"
)

// Args are the plug-in's part of the scheduler's configuration.
type Args struct {
	metav1.TypeMeta `json:",inline"`
	// Policy is one of package place's that draws no numbers; "prices" if empty.
	Policy string `json:"policy,omitempty"`
	// Workload is what usually comes. Without one it is observed.
	Workload []Typical `json:"workload,omitempty"`
	// Driver is whose devices are chosen among; weir's if empty.
	Driver string `json:"driver,omitempty"`
	// Weights are of namespaces: of two that ask for more than there is, the one with twice the
	// weight gets twice as much. 1 for those not named.
	Weights map[string]float64 `json:"weights,omitempty"`
	// GangDeadline is for gangs that name none: how long seats are held until all members have
	// theirs; a minute if empty.
	GangDeadline metav1.Duration `json:"gangDeadline,omitempty"`
}

// Typical is a shape of the workload and how often it comes.
type Typical struct {
	CPU          int64  `json:"cpu"` // thousandths of a core
	Count        int    `json:"count,omitempty"`
	Units        int    `json:"units,omitempty"` // of each device, in thousandths
	DeviceMemory int64  `json:"deviceMemory,omitempty"`
	Models       string `json:"models,omitempty"`
	Weight       int64  `json:"weight"`
}

// parse reads the arguments and fills in what is not said. The error names what cannot be.
func parse(from runtime.Object) (*Args, place.Policy, error) {
	a := &Args{}
	if from != nil {
		if err := frameworkruntime.DecodeInto(from, a); err != nil {
			return nil, place.Policy{}, fmt.Errorf("arguments of %s: %w", Name, err)
		}
	}
	if a.Policy == "" {
		a.Policy = "prices"
	}
	if a.Driver == "" {
		a.Driver = dra.DriverName
	}
	if a.GangDeadline.Duration == 0 {
		a.GangDeadline.Duration = time.Minute
	}
	policy, ok := place.Named(a.Policy)
	if !ok {
		return nil, policy, fmt.Errorf("arguments of %s: no policy is named %q", Name, a.Policy)
	}
	if a.GangDeadline.Duration < 0 {
		return nil, policy, fmt.Errorf("arguments of %s: gangDeadline %v: want more than 0", Name,
			a.GangDeadline.Duration)
	}
	for namespace, w := range a.Weights {
		if !(w > 0) {
			return nil, policy, fmt.Errorf("arguments of %s: weight %v of namespace %q: want more "+
				"than 0", Name, w, namespace)
		}
	}
	return a, policy, nil
}

// workload is the arguments' workload, nil for none.
func (a *Args) workload() (w place.Workload) {
	for _, t := range a.Workload {
		w = append(w, place.Typical{Weight: t.Weight, Request: place.Request{CPU: t.CPU,
			Count: t.Count, Units: t.Units, DeviceMemory: t.DeviceMemory, Models: t.Models}})
	}
	return w
}
