package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
	"github.com/weirgpu/weir/share"
)

// gpus returns the GPUs that an agent can share; none is an error that says why.
func gpus(fake bool) ([]agent.Device, error) {
	if fake {
		return fakeGPUs()
	}
	found, err := nvml.Discover()
	whole := err == nil
	var devices []agent.Device
	for i, index := range busIndexes(found) {
		d, e := agentDevice(&found[i])
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		d.BusIndex = index
		if !whole { // CUDA may count one that does not answer
			d.BusIndex = -1
		}
		devices = append(devices, d)
	}
	switch {
	case len(devices) > 0:
		return devices, nil
	case err == nil:
		err = nvml.ErrNoDriver
	}
	return nil, fmt.Errorf("%s: weir exec --fake-gpu shows the same on a simulated GPU",
		gpuNote(err))
}

// agentDevice describes a GPU to the agent.
func agentDevice(d *device.Info) (agent.Device, error) {
	number, ok := strings.CutPrefix(d.ID, string(device.CUDA)+":")
	ordinal, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil {
		return agent.Device{}, fmt.Errorf("device %s: is not a GPU", d.ID)
	}
	if d.MIGEnabled {
		return agent.Device{}, fmt.Errorf(
			"device %s: is cut into MIG instances, which weir exec does not share yet: switch MIG "+
				"off",
			d.ID,
		)
	}
	return agent.Device{
		Ordinal: uint32(ordinal),
		Name:    d.Name,
		UUID:    uuidBytes(d.UUID),
		Memory:  share.Bytes(d.MemoryBytes),
	}, nil
}

// uuidBytes reads a UUID as NVML writes it; zeros if it is of another form.
func uuidBytes(text string) (id [16]byte) {
	digits := strings.ReplaceAll(strings.TrimPrefix(text, "GPU-"), "-", "")
	if b, err := hex.DecodeString(digits); err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}

// uuidText writes a UUID as programs choose GPUs by.
func uuidText(id [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// fakeMemory is what a simulated GPU has unless WEIR_FAKE_MEMORY says otherwise.
const fakeMemory = 16 * share.GiB

// fakeGPUs describes the GPUs that the fake driver simulates, by the variables that it reads
// itself.
func fakeGPUs() ([]agent.Device, error) {
	count, memory, err := fakeSize()
	if err != nil {
		return nil, err
	}
	var devices []agent.Device
	for i := range count {
		d := agent.Device{Ordinal: uint32(i), Name: "weir fake GPU", Memory: memory, Fake: true,
			BusIndex: i}
		copy(d.UUID[:], "weir fake GPU")
		d.UUID[15] = byte(i)
		devices = append(devices, d)
	}
	return devices, nil
}

// fakeSize is how many simulated GPUs there are, and the memory of each.
func fakeSize() (count int, memory share.Bytes, err error) {
	count, memory = 1, fakeMemory
	if text := os.Getenv("WEIR_FAKE_GPUS"); text != "" {
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count > 16 {
			return 0, 0, fmt.Errorf("WEIR_FAKE_GPUS=%s: want a number from 1 to 16", text)
		}
	}
	if text := os.Getenv("WEIR_FAKE_MEMORY"); text != "" {
		if memory, err = share.ParseBytes(text); err != nil || memory <= 0 {
			return 0, 0, fmt.Errorf("WEIR_FAKE_MEMORY=%s: want a size such as 16GiB", text)
		}
	}
	return count, memory, nil
}

// fakeGPUDir is where the fake driver keeps its devices for the programs of an agent, unless
// WEIR_FAKE_DIR says otherwise.
func fakeGPUDir(runtime string) string { return filepath.Join(runtime, "gpu") }

// management is the management library, which is opened at the first call of it, and again at a
// later one where that failed.
type management struct {
	ctx  context.Context
	fake bool

	mu      sync.Mutex
	library *nvml.Library
}

func (m *management) open() (*nvml.Library, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.library != nil {
		return m.library, nil
	}
	l, err := openNVML(m.ctx, m.fake)
	if err != nil {
		return nil, err
	}
	m.library = l
	return l, nil
}

func (m *management) holds(ordinal uint32) (map[uint32]uint64, error) {
	l, err := m.open()
	if err != nil {
		return nil, err
	}
	return l.Processes(ordinal)
}

func (m *management) used(ordinal uint32) (uint64, error) {
	l, err := m.open()
	if err != nil {
		return 0, err
	}
	return l.Used(ordinal)
}

// limiter is the driver's own limit of memory for an agent that may set it; nil for one that may
// not. The fake driver asks for nobody's rights where WEIR_FAKE_LIMITS is set.
func (m *management) limiter() agent.Limiter {
	if os.Geteuid() != 0 && !(m.fake && os.Getenv("WEIR_FAKE_LIMITS") != "") {
		return nil
	}
	return m
}

// MemoryLimit implements [agent.Limiter].
func (m *management) MemoryLimit(ordinal uint32, group string) (uint64, error) {
	l, err := m.open()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", agent.ErrNoLimiter, err)
	}
	n, err := l.MemoryLimit(ordinal, group)
	return n, limitError(err)
}

// SetMemoryLimit implements [agent.Limiter].
func (m *management) SetMemoryLimit(ordinal uint32, group string, bytes uint64) error {
	l, err := m.open()
	if err != nil {
		return fmt.Errorf("%w: %w", agent.ErrNoLimiter, err)
	}
	return limitError(l.SetMemoryLimit(ordinal, group, bytes))
}

// limitError tells what holds of a device from what is wrong with one group.
func limitError(err error) error {
	for _, whole := range []nvml.Result{nvml.FunctionNotFound, nvml.NoPermission,
		nvml.NotSupported} {
		if errors.Is(err, whole) {
			return fmt.Errorf("%w: %w", agent.ErrNoLimiter, err)
		}
	}
	return err
}

// firstPIDNamespace is that of the machine, with the inode PROC_PID_INIT_INO of the kernel's
// proc_ns.h.
const firstPIDNamespace = "pid:[4026531836]"

// openNVML opens the management library, or that of the fake driver.
func openNVML(ctx context.Context, fake bool) (*nvml.Library, error) {
	if !fake {
		if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != firstPIDNamespace {
			return nil, fmt.Errorf("the agent runs in a pid namespace of its own (%s), where the "+
				"management library may list other processes by the numbers of those there", ns)
		}
		return nvml.Open(nvml.Options{})
	}
	driver, _, err := fakeDriver(ctx)
	if err != nil {
		return nil, err
	}
	if os.Getenv("WEIR_FAKE_DIR") == "" {
		if err := os.Setenv("WEIR_FAKE_DIR", fakeGPUDir(agent.RuntimeDir(true))); err != nil {
			return nil, err
		}
	}
	return nvml.Open(nvml.Options{Path: filepath.Join(driver, "libnvidia-ml.so.1")})
}

// findMPS looks for the control daemon of NVIDIA's Multi-Process Service, or for that of the fake
// driver, which is among the files of its devices.
func findMPS(ctx context.Context, fake bool) (agent.MPS, error) {
	if !fake {
		return agent.FindMPS(ctx, fakecuda.Control, agent.MPSPipe())
	}
	pipe := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if pipe == "" {
		dir := os.Getenv("WEIR_FAKE_DIR")
		if dir == "" {
			dir = fakeGPUDir(agent.RuntimeDir(true))
		}
		pipe = filepath.Join(dir, "mps")
	}
	if _, err := os.Stat(pipe); err != nil {
		return agent.MPS{}, fmt.Errorf("%w: %w", agent.ErrNoMPS, err)
	}
	driver, _, err := fakeDriver(ctx)
	if err != nil {
		return agent.MPS{}, err
	}
	return agent.FindMPS(ctx, filepath.Join(driver, "bin", fakecuda.Control), pipe)
}
