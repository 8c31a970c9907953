//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import "fmt"

// mostProcesses bounds the list that a library may tell.
const mostProcesses = 1 << 16

// notAvailable is NVML_VALUE_NOT_AVAILABLE: the library lists the process and cannot tell.
const notAvailable = 1<<64 - 1

// Processes returns what each process holds of the memory of the GPU "cuda:index", in bytes, by its
// number in this process's pid namespace, clients of the Multi-Process Service among them. Of
// processes that this one cannot see, as from within a container, nothing is told, nor of those of
// which the driver does not know what they hold.
func (l *Library) Processes(index uint32) (map[uint32]uint64, error) {
	var d deviceHandle
	if r := l.call.byIndex(index, &d); r != Success {
		return nil, fmt.Errorf("cuda:%d: %w", index, r)
	}
	held := map[uint32]uint64{}
	list := func(call func(deviceHandle, *uint32, *processInfo) Result) Result {
		infos, r := processes(call, d)
		for _, p := range infos {
			if p.Used != notAvailable {
				held[p.PID] = max(held[p.PID], p.Used)
			}
		}
		return r
	}
	if r := list(l.call.running); r != Success {
		return nil, fmt.Errorf("cuda:%d: processes: %w", index, r)
	}
	_ = list(l.call.clients) // where there are none, or the library is older
	return held, nil
}

// Used returns how much of the memory of the GPU "cuda:index" is not free, in bytes, without what
// the driver reserves where it tells that.
func (l *Library) Used(index uint32) (uint64, error) {
	var d deviceHandle
	if r := l.call.byIndex(index, &d); r != Success {
		return 0, fmt.Errorf("cuda:%d: %w", index, r)
	}
	total, free := l.memory(d)
	if total <= 0 {
		return 0, fmt.Errorf("cuda:%d: memory: %w", index, NotSupported)
	}
	return uint64(max(0, total-free)), nil
}

// processes makes room until the list fits, which may grow meanwhile.
func processes(call func(deviceHandle, *uint32, *processInfo) Result, d deviceHandle) (
	[]processInfo, Result) {
	for n := uint32(64); ; n *= 2 {
		infos := make([]processInfo, n)
		count := n
		r := call(d, &count, &infos[0])
		if r == InsufficientSize && n < mostProcesses {
			continue
		}
		if r != Success {
			return nil, r
		}
		return infos[:min(count, n)], r
	}
}
