package dra

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/share"
)

// Names of what users and the cluster see.
const (
	// DriverName is the driver of all devices, and the kind of their classes.
	DriverName = "gpu.weir.dev"
	// CPUClass is the device class of nodes' CPUs; that of GPUs is DriverName.
	CPUClass = "cpu.weir.dev"
	// ParametersVersion and ParametersKind are what parameters of a claim or class begin with.
	ParametersVersion = DriverName + "/v1alpha1"
	ParametersKind    = "ShareParameters"
	// CapacityMemory, in bytes, and CapacityCompute, in thousandths of the device's time, are the
	// capacities that a claim takes a part of.
	CapacityMemory  = "memory"
	CapacityCompute = "compute"
)

// Whole is the compute of a device, in thousandths.
const Whole = 1000

// QoS says what a claim's compute means to its job.
type QoS string

// The kinds of service.
const (
	// Burstable has its compute guaranteed, and takes what is idle up to its limit.
	Burstable QoS = "Burstable"
	// Guaranteed has its compute, never less and never more.
	Guaranteed QoS = "Guaranteed"
	// BestEffort has nothing guaranteed: it takes what all others leave, up to its limit.
	BestEffort QoS = "BestEffort"
)

// Parameters are what a claim, or its device class, says beyond capacities.
type Parameters struct {
	Class share.Class
	Limit int // thousandths of the device's time never exceeded; 0: not said
	QoS   QoS // empty: not said
	// classed: the class was said.
	classed bool
}

// document is Parameters as written.
type document struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Class      *string `json:"class"`
	Limit      *amount `json:"limit"`
	QoS        *QoS    `json:"qos"`
}

// amount is a quantity as JSON has it: a number or a text.
type amount string

// UnmarshalJSON takes both.
func (a *amount) UnmarshalJSON(b []byte) error {
	*a = amount(strings.Trim(string(b), `"`))
	return nil
}

// ParseParameters reads the parameters of one configuration on top of what others before it say:
// those of the class come first, the claim's after them. An unknown field, a wrong version and a
// value out of range are errors that name it.
func ParseParameters(base Parameters, text []byte) (Parameters, error) {
	var d document
	r := json.NewDecoder(bytes.NewReader(text))
	r.DisallowUnknownFields()
	if err := r.Decode(&d); err != nil {
		return base, fmt.Errorf("parameters: %w: the fields are apiVersion, kind, class, limit "+
			"and qos", err)
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return base, errors.New("parameters: more than one object")
	}
	if d.APIVersion != ParametersVersion || d.Kind != ParametersKind {
		return base, fmt.Errorf("parameters: are of %q, kind %q: want apiVersion %s, kind %s",
			d.APIVersion, d.Kind, ParametersVersion, ParametersKind)
	}
	return base.with(&d)
}

// with is the parameters with what a document says.
func (p Parameters) with(d *document) (Parameters, error) {
	if d.Class != nil {
		c, err := share.ParseClass(*d.Class)
		if err != nil {
			return p, fmt.Errorf("parameters: class: %w", err)
		}
		p.Class, p.classed = c, true
	}
	if d.Limit != nil {
		n, err := ParseMilli(string(*d.Limit))
		if err != nil || n < 1 || n > Whole {
			return p, fmt.Errorf("parameters: limit %s: want a part of the device above 0 and at "+
				"most 1, such as 500m or 0.5", string(*d.Limit))
		}
		p.Limit = n
	}
	if d.QoS != nil {
		switch *d.QoS {
		case Burstable, Guaranteed, BestEffort:
			p.QoS = *d.QoS
		default:
			return p, fmt.Errorf("parameters: qos %q: want %s, %s or %s", *d.QoS, Burstable,
				Guaranteed, BestEffort)
		}
	}
	return p, nil
}

// ParseMilli reads a quantity of at most Kubernetes' precision of thousandths, such as "300m",
// "0.3" or "1", as thousandths. It is an error below zero and above a million.
func ParseMilli(s string) (int, error) {
	bad := fmt.Errorf("quantity %q: want thousandths such as 300m, or a number such as 0.3", s)
	if digits, milli := strings.CutSuffix(s, "m"); milli {
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || n > 1e9 {
			return 0, bad
		}
		return int(n), nil
	}
	whole, part, point := strings.Cut(s, ".")
	if len(part) > 3 || point && part == "" {
		return 0, bad
	}
	n, err := strconv.ParseUint(whole+(part + "000")[:3], 10, 31)
	if err != nil || whole == "" || n > 1e9 {
		return 0, bad
	}
	return int(n), nil
}

// shareOf is the share of a job with so much memory and compute, in thousandths: what the claim was
// given, as its parameters mean it. A contradiction is an error that says how to write it.
func (p Parameters) shareOf(memory share.Bytes, compute int) (share.Share, error) {
	s := share.Share{Memory: memory, Compute: milli(compute), Limit: milli(p.Limit), Class: p.Class}
	switch {
	case memory <= 0:
		return s, fmt.Errorf("capacity: %s of %d bytes: want more than 0, such as 8Gi",
			CapacityMemory, memory)
	case compute < 0 || compute > Whole:
		return s, fmt.Errorf("capacity: %s of %dm: want at most 1, the whole device",
			CapacityCompute, compute)
	case p.Limit > 0 && p.Limit < compute:
		return s, fmt.Errorf("limit %dm is below %s %dm: a share cannot be promised more than it "+
			"may take: raise limit or ask for less", p.Limit, CapacityCompute, compute)
	}
	switch p.QoS {
	case Guaranteed:
		if p.Limit > 0 && p.Limit != compute {
			return s, fmt.Errorf("qos %s with limit %dm and %s %dm: leave limit out, or write %s",
				Guaranteed, p.Limit, CapacityCompute, compute, Burstable)
		}
		if compute == 0 {
			return s, fmt.Errorf("qos %s without %s: ask for some, or write %s", Guaranteed,
				CapacityCompute, BestEffort)
		}
		s.Limit = s.Compute
	case BestEffort:
		if p.classed && p.Class != share.Opportunistic {
			return s, fmt.Errorf("qos %s with class %v: leave class out, or write %s", BestEffort,
				p.Class, Burstable)
		}
		s.Class, s.Compute = share.Opportunistic, 0
	}
	return s, nil
}

// milli is thousandths as a fraction.
func milli(n int) float64 { return float64(n) / Whole }

// Opportunistic reports whether a claim with these parameters takes only what others leave, and so
// may be taken from for who has a higher priority.
func (p Parameters) Opportunistic() bool {
	return p.QoS == BestEffort || p.Class == share.Opportunistic
}
