package catalogue

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirgpu/weir/share"
)

// ErrUnknown is the kind of the error for a device that is not in the catalogue.
var ErrUnknown = errors.New("not in the catalogue")

// Device is what is published of a device. Data sheets give memory in GB and mean 2^30 bytes, as
// drivers report it; bandwidth in GB/s means 10^9.
type Device struct {
	Name  string `json:"name"`  // what a user writes, such as "h100"
	Title string `json:"title"` // what its maker calls it
	// Units is the number of compute units: streaming multiprocessors.
	Units int `json:"units"`
	// Memory is the device's own.
	Memory share.Bytes `json:"memory_bytes"`
	// Bandwidth is that of its memory, and Link that to the host in one direction, in bytes a
	// second.
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
	Link      float64 `json:"link_bytes_per_s"`
	// Peak is the floating-point operations a second in single precision, without tensor cores.
	Peak float64 `json:"peak_flops_per_s"`
	// Instances is the most instances that the device can be split into (MIG); 0: it cannot.
	Instances int `json:"mig_instances"`
	// Local is what one unit keeps of the kernels that run on it: registers and shared memory.
	Local share.Bytes `json:"local_bytes_per_unit"`
	// Can says what published interfaces make possible on it.
	Can share.Can `json:"can"`
	// Sources says where the figures come from.
	Sources Sources `json:"sources"`
}

// Sources are documents by figure.
type Sources struct {
	Units     string `json:"units"`
	Memory    string `json:"memory"` // and its bandwidth, the peak and the link
	Instances string `json:"mig_instances,omitempty"`
	Local     string `json:"local_bytes_per_unit"`
	Can       string `json:"can"`
	Switch    string `json:"switch_cost"`
}

// SwitchCost is the time in which all units save what they keep of one context and restore that of
// another, at the full bandwidth of the memory: the model of Tanasic et al., "Enabling preemptive
// multiprogramming on GPUs", ISCA 2014, section 3.2. What drivers take comes on top.
func (d *Device) SwitchCost() time.Duration {
	bytes := 2 * float64(d.Units) * float64(d.Local)
	return time.Duration(bytes / d.Bandwidth * float64(time.Second))
}

// Find returns the device of this name, in any case of letters, or an [ErrUnknown] that lists the
// names there are.
func Find(name string) (Device, error) {
	var names []string
	for _, d := range All() {
		if strings.EqualFold(d.Name, name) {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return Device{}, fmt.Errorf("device %q: %w: want one of %s", name, ErrUnknown,
		strings.Join(names, ", "))
}
