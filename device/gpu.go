package device

// Driver describes the software that drives a device.
type Driver struct {
	// Version is the driver's own version, like "570.86.15".
	Version string `json:"version"`
	// CUDA is the newest CUDA version that the driver serves, like "12.8"; empty when it does not
	// tell.
	CUDA string `json:"cuda,omitempty"`
	// MemoryLimit says that the driver itself can limit the device memory of a set of processes, a
	// boundary that holds against hostile programs too.
	MemoryLimit bool `json:"memory_limit"`
}

// Instance is a part of a GPU with memory and multiprocessors of its own: a compute instance of
// NVIDIA Multi-Instance GPU.
type Instance struct {
	// UUID names the instance, like "MIG-…"; programs choose it by this name.
	UUID string `json:"uuid"`
	// Profile is the instance's size in the maker's spelling, like "1g.10gb".
	Profile string `json:"profile"`
	// MemoryBytes is the instance's memory; FreeBytes is what of it nobody held.
	MemoryBytes int64 `json:"memory_bytes"`
	FreeBytes   int64 `json:"memory_free_bytes"`
	// Units counts its multiprocessors; 0 when they cannot be found out.
	Units int `json:"units"`
	// GPUInstance and ComputeInstance are its numbers within the GPU.
	GPUInstance     int `json:"gpu_instance"`
	ComputeInstance int `json:"compute_instance"`
}

// Path is the kind of way between two GPUs, nearest first, in the spelling of nvidia-smi.
type Path string

// The kinds of path.
const (
	PathSelf     Path = "X"    // the device itself
	PathNVLink   Path = "NV"   // NVLink, direct or through a switch
	PathBoard    Path = "PSB"  // both on one board
	PathSwitch   Path = "PIX"  // at most one PCIe switch
	PathSwitches Path = "PXB"  // several PCIe switches, no host bridge
	PathBridge   Path = "PHB"  // a PCIe host bridge, which is mostly the processor
	PathNode     Path = "NODE" // several host bridges of one memory node
	PathSystem   Path = "SYS"  // the interconnect between memory nodes
	PathUnknown  Path = "?"    // the driver does not tell
)

// Link is the way from one GPU to another.
type Link struct {
	// To is the ID of the other GPU.
	To string `json:"to"`
	// Path is the nearest way between the two.
	Path Path `json:"path"`
	// NVLinks counts the NVLink connections between the two. Where they are connected over a
	// switch, it is the number that both have into the switch.
	NVLinks int `json:"nvlinks,omitempty"`
	// Peer says that the driver lets each read the other's memory directly.
	Peer bool `json:"peer"`
}
