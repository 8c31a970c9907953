//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/ebitengine/purego"

	"github.com/weirgpu/weir/device"
)

// places are where a driver's installation leaves the library: the loader's own paths, Windows
// Subsystem for Linux, NixOS, containers of the NVIDIA operator and of Google's nodes.
var places = []string{
	"libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
	"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
}

// Built says whether this program can open the library at all.
const Built = true

// Options say where to look.
type Options struct {
	// Path is the library to open; "" means the one that the environment variable WEIR_NVML names,
	// or else the system's.
	Path string
	// Root is the file system that holds sys; nil means this machine's.
	Root fs.FS
}

// Library is NVML, loaded and initialized.
type Library struct {
	call   calls
	host   host
	driver device.Driver
}

// Open loads and initializes the library; the caller owns it and must Close it. The error wraps
// [ErrNoDriver] where there is no library or no driver behind it, and says what was tried.
func Open(o Options) (*Library, error) {
	handle, err := load(o.Path)
	if err != nil {
		return nil, err
	}
	l := &Library{host: host{o.Root}}
	if o.Root == nil {
		l.host.root = os.DirFS("/")
	}
	l.call.bind(handle)
	if r := l.call.init(); r != Success {
		return nil, fmt.Errorf("%w: the management library is there, but does not start: %w",
			ErrNoDriver, r)
	}
	l.driver = l.describeDriver(handle)
	return l, nil
}

// load opens the first library that there is.
func load(path string) (uintptr, error) {
	if path == "" {
		path = os.Getenv(PathVariable)
	}
	candidates := places
	if path != "" {
		candidates = []string{path}
	}
	var first error
	for _, c := range candidates {
		handle, err := purego.Dlopen(c, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return handle, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, fmt.Errorf("%w: %w (%s names another library)", ErrNoDriver, first, PathVariable)
}

// Close ends the use of the library. It stays mapped: the driver may have threads in it.
func (l *Library) Close() error { return l.call.shutdown().err() }

// Driver describes the driver.
func (l *Library) Driver() device.Driver { return l.driver }

func (l *Library) describeDriver(handle uintptr) device.Driver {
	var d device.Driver
	var version [80]byte
	if l.call.driverVersion(&version[0], uint32(len(version))) == Success {
		d.Version = text(version[:])
	}
	var cuda int32
	if l.call.cudaVersion(&cuda) == Success {
		d.CUDA = cudaVersion(cuda)
	}
	_, err := purego.Dlsym(handle, "nvmlDeviceSetMemoryLimits_v1")
	d.MemoryLimit = err == nil || branch(d.Version) >= ownLimitSince
	return d
}

// Discover opens the library, describes all GPUs and closes it. Without a driver it returns an
// error that wraps [ErrNoDriver]; a GPU that cannot be described is left out, and the error beside
// the others says why.
func Discover() ([]device.Info, error) {
	l, err := Open(Options{})
	if err != nil {
		return nil, err
	}
	infos, err := l.Devices()
	return infos, errors.Join(err, l.Close())
}

// deviceHandle is nvmlDevice_t.
type deviceHandle uintptr

// calls are the functions of the library. One that it lacks returns FunctionNotFound.
type calls struct {
	init, shutdown func() Result
	driverVersion  func(text *byte, size uint32) Result
	cudaVersion    func(*int32) Result

	count   func(*uint32) Result
	byIndex func(index uint32, d *deviceHandle) Result
	name    func(d deviceHandle, text *byte, size uint32) Result
	uuid    func(d deviceHandle, text *byte, size uint32) Result
	pci     func(deviceHandle, *pciInfo) Result

	memory      func(deviceHandle, *memory) Result
	memory2     func(deviceHandle, *memory2) Result
	attributes  func(deviceHandle, *attributes) Result
	capability  func(d deviceHandle, major, minor *int32) Result
	cores       func(deviceHandle, *uint32) Result
	cpuAffinity func(d deviceHandle, words uint32, set *uint64) Result
	running     func(d deviceHandle, n *uint32, infos *processInfo) Result
	clients     func(d deviceHandle, n *uint32, infos *processInfo) Result

	memoryLimits    func(deviceHandle, *getMemoryLimits) Result
	setMemoryLimits func(deviceHandle, *setMemoryLimits) Result

	migMode         func(d deviceHandle, current, pending *uint32) Result
	migMost         func(deviceHandle, *uint32) Result
	migByIndex      func(d deviceHandle, index uint32, instance *deviceHandle) Result
	gpuInstance     func(deviceHandle, *uint32) Result
	computeInstance func(deviceHandle, *uint32) Result

	ancestor       func(a, b deviceHandle, level *uint32) Result
	p2p            func(a, b deviceHandle, capability uint32, status *uint32) Result
	linkState      func(d deviceHandle, link uint32, active *uint32) Result
	linkRemote     func(d deviceHandle, link uint32, remote *pciInfo) Result
	linkRemoteType func(d deviceHandle, link uint32, kind *uint32) Result
}

// bind fills the table; of several names the first that the library has is taken.
func (c *calls) bind(handle uintptr) {
	for _, b := range []struct {
		function any
		names    []string
	}{
		{&c.init, []string{"nvmlInit_v2", "nvmlInit"}},
		{&c.shutdown, []string{"nvmlShutdown"}},
		{&c.driverVersion, []string{"nvmlSystemGetDriverVersion"}},
		{&c.cudaVersion, []string{"nvmlSystemGetCudaDriverVersion_v2",
			"nvmlSystemGetCudaDriverVersion"}},
		{&c.count, []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
		{&c.byIndex, []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
		{&c.name, []string{"nvmlDeviceGetName"}},
		{&c.uuid, []string{"nvmlDeviceGetUUID"}},
		{&c.pci, []string{"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}},
		{&c.memory, []string{"nvmlDeviceGetMemoryInfo"}},
		{&c.memory2, []string{"nvmlDeviceGetMemoryInfo_v2"}},
		{&c.attributes, []string{"nvmlDeviceGetAttributes_v2"}},
		{&c.capability, []string{"nvmlDeviceGetCudaComputeCapability"}},
		{&c.cores, []string{"nvmlDeviceGetNumGpuCores"}},
		{&c.cpuAffinity, []string{"nvmlDeviceGetCpuAffinity"}},
		{&c.running, []string{"nvmlDeviceGetComputeRunningProcesses_v3",
			"nvmlDeviceGetComputeRunningProcesses_v2"}},
		{&c.clients, []string{"nvmlDeviceGetMPSComputeRunningProcesses_v3",
			"nvmlDeviceGetMPSComputeRunningProcesses_v2"}},
		{&c.memoryLimits, []string{"nvmlDeviceGetMemoryLimits_v1"}},
		{&c.setMemoryLimits, []string{"nvmlDeviceSetMemoryLimits_v1"}},
		{&c.migMode, []string{"nvmlDeviceGetMigMode"}},
		{&c.migMost, []string{"nvmlDeviceGetMaxMigDeviceCount"}},
		{&c.migByIndex, []string{"nvmlDeviceGetMigDeviceHandleByIndex"}},
		{&c.gpuInstance, []string{"nvmlDeviceGetGpuInstanceId"}},
		{&c.computeInstance, []string{"nvmlDeviceGetComputeInstanceId"}},
		{&c.ancestor, []string{"nvmlDeviceGetTopologyCommonAncestor"}},
		{&c.p2p, []string{"nvmlDeviceGetP2PStatus"}},
		{&c.linkState, []string{"nvmlDeviceGetNvLinkState"}},
		{&c.linkRemote, []string{"nvmlDeviceGetNvLinkRemotePciInfo_v2",
			"nvmlDeviceGetNvLinkRemotePciInfo"}},
		{&c.linkRemoteType, []string{"nvmlDeviceGetNvLinkRemoteDeviceType"}},
	} {
		bindOne(b.function, handle, b.names)
	}
}

func bindOne(function any, handle uintptr, names []string) {
	for _, name := range names {
		if symbol, err := purego.Dlsym(handle, name); err == nil {
			purego.RegisterFunc(function, symbol)
			return
		}
	}
	slot := reflect.ValueOf(function).Elem()
	slot.Set(reflect.MakeFunc(slot.Type(), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(FunctionNotFound)}
	}))
}
