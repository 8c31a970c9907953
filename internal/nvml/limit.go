//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// MemoryLimit returns the driver's own limit of what the processes of a control group hold of the
// GPU "cuda:index", in bytes; [NoMemoryLimit] where there is none. The group is named by its
// folder, such as /sys/fs/cgroup/weir.slice/job. Of a group that has no limit of its own the driver
// may tell that of the nearest one above it.
func (l *Library) MemoryLimit(index uint32, group string) (uint64, error) {
	var d deviceHandle
	if r := l.call.byIndex(index, &d); r != Success {
		return 0, fmt.Errorf("cuda:%d: %w", index, r)
	}
	name, err := cString(group)
	if err != nil {
		return 0, err
	}
	got := getMemoryLimits{Namespace: name, Hard: NoMemoryLimit}
	r := l.call.memoryLimits(d, &got)
	runtime.KeepAlive(name)
	// The driver's own bookkeeping, which kernels without the dmem controller get, answers that for
	// a group which never had a limit.
	if r == Success || r == NotSupported {
		return got.Hard, nil
	}
	return 0, fmt.Errorf("cuda:%d: memory limit of %s: %w", index, group, l.explain(r, group))
}

// SetMemoryLimit makes the driver refuse what the processes of a control group allocate of the GPU
// "cuda:index" beyond so many bytes; [NoMemoryLimit] takes the limit back. It guarantees the group
// nothing: where clients of the Multi-Process Service want memory that they are guaranteed, its
// server ends others that hold more than they are. Only root may.
func (l *Library) SetMemoryLimit(index uint32, group string, bytes uint64) error {
	var d deviceHandle
	if r := l.call.byIndex(index, &d); r != Success {
		return fmt.Errorf("cuda:%d: %w", index, r)
	}
	name, err := cString(group)
	if err != nil {
		return err
	}
	r := l.call.setMemoryLimits(d, &setMemoryLimits{Namespace: name, Hard: bytes})
	runtime.KeepAlive(name)
	if r != Success {
		return fmt.Errorf("cuda:%d: memory limit of %s: %w", index, group, l.explain(r, group))
	}
	return nil
}

// explain adds what a refusal of a limit comes from, as "MPS v3 Memory Partitioning" in NVIDIA's
// guide to MPS has it, and what would change it.
func (l *Library) explain(r Result, group string) error {
	switch r {
	case FunctionNotFound:
		return fmt.Errorf("%w: driver %s has none, those of branch %d and later do", r,
			l.driver.Version, ownLimitSince)
	case NoPermission:
		return fmt.Errorf("%w: only root may set one", r)
	case NotSupported:
		return fmt.Errorf("%w: the GPU is in MIG mode, or the driver's accounting of memory is "+
			"off (RmMemacctMode)", r)
	case NotFound:
		return fmt.Errorf("%w: there is no such group, or the dmem controller is not on in it: "+
			"write +dmem to the cgroup.subtree_control of the group above", r)
	}
	return r
}

// cString returns a text as C has it.
func cString(s string) (*byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, errors.New("a control group's name holds a zero byte")
	}
	b := append([]byte(s), 0)
	return &b[0], nil
}
