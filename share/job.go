package share

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInvalid is the kind of every error that Validate returns.
var ErrInvalid = errors.New("invalid")

// DefaultWeight is the weight, in devices, of a job that names no compute fraction: against a job
// with Compute 0.3 it gets a quarter of the device.
const DefaultWeight = 0.1

// Share is what one job was promised of one device. The three numbers are those of mClock (Gulati,
// Merchant, Varman, OSDI 2010): reservation, limit and weight, of which the first and the last are
// one number here.
type Share struct {
	// Memory is the hard cap in bytes. Zero means as much as the job's plan needs when it is
	// admitted.
	Memory Bytes `json:"memory,omitempty" yaml:"memory,omitempty"`
	// Elastic: what the job holds above Keep is not set apart for it. It is told to give that back
	// while it is between iterations and others wait for it, and waits itself until it fits.
	// Otherwise all of Memory is the job's for as long as it lives.
	Elastic bool `json:"elastic,omitempty" yaml:"elastic,omitempty"`
	// Keep is what an elastic job is never told to give back of what is not Ephemeral in a lane, in
	// bytes; at most Memory. It means nothing for others.
	Keep Bytes `json:"keep,omitempty" yaml:"keep,omitempty"`
	// Compute is the guaranteed fraction of the device while the job has work, 0 to 1, and the
	// job's weight when idle capacity is lent. Zero guarantees nothing and weighs DefaultWeight.
	Compute float64 `json:"compute,omitempty" yaml:"compute,omitempty"`
	// Limit is the fraction that is never exceeded, even on an idle device, 0 to 1. Zero means 1.
	Limit float64 `json:"limit,omitempty" yaml:"limit,omitempty"`
	// Class is the job's class.
	Class Class `json:"class,omitempty" yaml:"class,omitempty"`
}

// Guarantee returns the fraction of the device that the job may count on while it has work:
// Compute, or 0 for opportunistic work.
func (s Share) Guarantee() float64 {
	if s.Class == Opportunistic {
		return 0
	}
	return s.Compute
}

// Weight returns the job's weight against others: Compute, or DefaultWeight where there is none.
func (s Share) Weight() float64 {
	if s.Compute > 0 {
		return s.Compute
	}
	return DefaultWeight
}

// Cap returns the fraction never exceeded: Limit, or 1 where there is none.
func (s Share) Cap() float64 {
	if s.Limit > 0 {
		return s.Limit
	}
	return 1
}

// Bends returns what of so much memory is not set apart for the job: all but Keep for an elastic
// job, nothing for others.
func (s Share) Bends(memory Bytes) Bytes {
	if !s.Elastic {
		return 0
	}
	return max(0, memory-s.Keep)
}

// Validate reports all faults of the share together, as [Faults].
func (s Share) Validate() error {
	var f Faults
	s.faults(&f)
	return f.err()
}

func (s Share) faults(f *Faults) {
	if s.Memory < 0 {
		f.add("memory", s.Memory, "must not be negative")
	}
	if s.Keep < 0 || s.Memory > 0 && s.Keep > s.Memory {
		f.add("keep", s.Keep, "must be from 0 to memory, "+s.Memory.String())
	}
	if !within(s.Compute, 0, 1) {
		f.add("compute", s.Compute, "must be from 0 to 1 of a device")
	}
	if !within(s.Limit, 0, 1) {
		f.add("limit", s.Limit, "must be above 0 and at most 1 of a device (0: 1)")
	}
	if s.Limit > 0 && s.Compute > s.Limit {
		f.add("compute", s.Compute,
			"must not exceed limit "+strconv.FormatFloat(s.Limit, 'g', -1, 64))
	}
	if int(s.Class) >= len(classNames) {
		f.add("class", s.Class, "must be latency, standard or opportunistic")
	}
}

func within(v, lo, hi float64) bool { return !math.IsNaN(v) && v >= lo && v <= hi }

// Job is the specification of a job: data that a person wrote. What the broker knows of a running
// job is [JobState].
type Job struct {
	// Name is what people and errors call the job. Names are unique on a device and no policy sees
	// them.
	Name string `json:"name" yaml:"name"`
	// Share is what the job was promised.
	Share `yaml:",inline"`
	// Iterations is the number of iterations after which the job is complete; 0 where that is not
	// known beforehand.
	Iterations int64 `json:"iterations,omitempty" yaml:"iterations,omitempty"`
	// Ephemeral is the part of its memory that the job holds only within an iteration, in bytes. On
	// a device with lanes it is shared with jobs that iterate at other times.
	Ephemeral Bytes `json:"ephemeral,omitempty" yaml:"ephemeral,omitempty"`
}

// Validate reports all faults of the specification together, as [Faults].
func (j Job) Validate() error {
	f := Faults{Object: "job " + j.Name}
	if strings.TrimSpace(j.Name) == "" {
		f.Object = "job"
		f.add("name", strconv.Quote(j.Name), "must not be empty")
	} else if strings.ContainsFunc(j.Name, func(r rune) bool {
		return !unicode.IsPrint(r) || r == utf8.RuneError
	}) {
		// Names are shown in terminals, which obey what is not printable.
		f.Object = "job " + strconv.Quote(j.Name)
		f.add("name", strconv.Quote(j.Name), "must be printable")
	}
	j.Share.faults(&f)
	if j.Iterations < 0 {
		f.add("iterations", j.Iterations, "must not be negative (0: until stopped)")
	}
	if j.Ephemeral < 0 || j.Memory > 0 && j.Ephemeral > j.Memory {
		f.add("ephemeral", j.Ephemeral, "must be from 0 to memory, "+j.Memory.String())
	}
	return f.err()
}

// Fault is one wrong value: the field, the value it has, and the bound it breaks.
type Fault struct{ Field, Value, Bound string }

// Faults are all the faults of one object. It is an [ErrInvalid].
type Faults struct {
	Object string // what is wrong, such as "job train-7"; may be empty
	List   []Fault
}

// Error lists the faults on one line.
func (f Faults) Error() string {
	var b strings.Builder
	if f.Object != "" {
		b.WriteString(f.Object + ": ")
	}
	for i, x := range f.List {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(x.Field + " is " + x.Value + ", " + x.Bound)
	}
	return b.String()
}

// Is reports whether target is [ErrInvalid].
func (f Faults) Is(target error) bool { return target == ErrInvalid }

func (f *Faults) add(field string, value any, bound string) {
	f.List = append(f.List, Fault{field, fmt.Sprint(value), bound})
}

func (f *Faults) err() error {
	if len(f.List) == 0 {
		return nil
	}
	return *f
}
