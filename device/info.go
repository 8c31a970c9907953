package device

// Kind is a family of devices; it is also the part of a device's ID before the colon.
type Kind string

// The kinds of device that weir knows.
const (
	CPU  Kind = "cpu"  // the processors and the main memory of this machine
	CUDA Kind = "cuda" // an NVIDIA GPU
	Far  Kind = "far"  // memory that the host cannot address, on any machine: package device/far
)

// Info describes a device: how large it is, what it can do and where it sits.
type Info struct {
	// ID names the device on this machine, like "cpu:0".
	ID string `json:"id"`
	// Kind is the family.
	Kind Kind `json:"kind"`
	// Name is what the maker calls it.
	Name string `json:"name"`
	// MemoryBytes is the memory this process may hold on the device; 0 when it cannot be found out.
	MemoryBytes int64 `json:"memory_bytes"`
	// Units counts the compute units that can be given to jobs: for a CPU the cores that this
	// process may keep busy, for a GPU its multiprocessors. It is 0 when their number cannot be
	// found out.
	Units int `json:"units"`
	// CPUs lists the processor numbers this process may run on, ascending; empty when they cannot
	// be found out. A time quota can make Units smaller than this list. For a GPU it lists the
	// processors that are near to it.
	CPUs []int `json:"cpus,omitempty"`
	// NUMA lists the memory nodes the device spans, ascending by ID. A GPU spans none: NUMANode
	// says to which it is near.
	NUMA []NUMANode `json:"numa_nodes,omitempty"`
	// Features lists the instruction sets that kernels choose by, in the spelling of the operating
	// system, ascending.
	Features []string `json:"features,omitempty"`

	// UUID names a GPU on every machine and after every restart, like
	// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6". A CPU has none; so have the fields below.
	UUID string `json:"uuid,omitempty"`
	// PCI is the place on the bus as domain:bus:device.function in lower case, like "0000:17:00.0".
	PCI string `json:"pci,omitempty"`
	// NUMANode is the memory node that the device is attached to; nil when the system does not tell
	// or has one node only.
	NUMANode *int `json:"numa_node,omitempty"`
	// FreeBytes is the memory that nobody held when the device was described.
	FreeBytes int64 `json:"memory_free_bytes,omitempty"`
	// ComputeCapability is the version of the GPU's instruction set, like "9.0".
	ComputeCapability string `json:"compute_capability,omitempty"`
	// Driver is the software that drives the device.
	Driver *Driver `json:"driver,omitempty"`
	// MIGEnabled says that the GPU is cut into instances (NVIDIA Multi-Instance GPU); programs then
	// run on an instance, never on the whole.
	MIGEnabled bool `json:"mig_enabled,omitempty"`
	// MIG lists those instances.
	MIG []Instance `json:"mig,omitempty"`
	// Links lists the paths to the other GPUs of the machine, in their order.
	Links []Link `json:"links,omitempty"`
}

// NUMANode is a set of processors and the memory that is near to all of them.
type NUMANode struct {
	// ID is the node's number in the operating system.
	ID int `json:"id"`
	// CPUs lists the node's processors that this process may run on, ascending.
	CPUs []int `json:"cpus"`
	// MemoryBytes is the node's memory; 0 when it cannot be found out.
	MemoryBytes int64 `json:"memory_bytes"`
}
