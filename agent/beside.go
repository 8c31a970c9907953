package agent

import (
	"errors"
	"strings"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// Beside is what else shares devices of this machine in the agent's process: jobs that are no
// programs, on devices of their own, such as the models of a server. Clients of the agent see and
// change them as they do programs. Its methods may be called by any number of goroutines, and do
// not call the agent.
type Beside interface {
	// Devices are the devices with their jobs as they are now.
	Devices() []DeviceSnapshot
	// Set gives a job another share, and returns what it has then. The error wraps [ErrNoJob] where
	// none has the name.
	Set(ShareChange) (share.Job, error)
	// SetPolicy makes another policy decide on all of these devices, or changes nothing.
	SetPolicy(spec string) error
}

// ErrNoJob: no job has the name.
var ErrNoJob = errors.New("no such job")

// all is the state of all devices, and last of those of others in the agent's process.
func (a *Agent) all() Snapshot {
	s := a.Snapshot()
	if a.cfg.Beside == nil {
		return s
	}
	list := a.cfg.Beside.Devices()
	for i := range list {
		list[i].Beside = true
	}
	s.Devices = append(s.Devices, list...)
	return s
}

// hasBeside reports whether another job of the agent's process has a name.
func (a *Agent) hasBeside(name string) (device string, has bool) {
	if a.cfg.Beside == nil {
		return "", false
	}
	for _, d := range a.cfg.Beside.Devices() {
		for i := range d.Jobs {
			if d.Jobs[i].Name == name || strings.HasPrefix(d.Jobs[i].Name, name+"/") {
				return d.Device, true
			}
		}
	}
	return "", false
}

// SetPolicy makes another policy decide on all devices from here on, those of [Config.Beside] too,
// named as [Config.Policy] is. One that any of them cannot have, for what can be enforced or for
// the jobs that are there, changes nothing.
func (a *Agent) SetPolicy(spec string) error { return a.setPolicy(spec) }

// Set gives a job another share while it runs, and returns what it has then. A name that a program
// and another job have needs the device, which only programs' can be named by. An error says why
// the share stays as it is, and wraps [ErrNoJob] where none has the name.
func (a *Agent) Set(to ShareChange) (share.Job, error) {
	want := share.Job{Name: to.Job}
	to.Apply(&want.Share)
	if err := want.Validate(); err != nil {
		return share.Job{}, err
	}
	return a.set(to)
}

// setBeside is set for a job that is no program.
func (a *Agent) setBeside(to ShareChange) (share.Job, error) {
	now, err := a.cfg.Beside.Set(to)
	if errors.Is(err, ErrNoJob) {
		return now, unknownJob(to.Job)
	}
	if err != nil {
		return now, &errRefused{wire.RefusedAdmission, err}
	}
	a.log.Info("share set", "job", now.Name, "memory", now.Memory.String(), "compute", now.Compute,
		"limit", now.Limit, "class", now.Class.String())
	return now, nil
}

// unknownJob is why nothing is done about a job that is not there.
func unknownJob(name string) error {
	return &errRefused{wire.RefusedUnknownJob, &noJob{name}}
}

// noJob is an [ErrNoJob].
type noJob struct{ name string }

// Error implements error.
func (e *noJob) Error() string {
	return "job " + e.name + ": there is none: weir top shows those there are"
}

// Is implements what errors.Is asks.
func (e *noJob) Is(target error) bool { return target == ErrNoJob }
