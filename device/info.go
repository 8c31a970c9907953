package device

// Kind is a family of devices; it is also the part of a device's ID before the
// colon.
type Kind string

// The kinds of device that weir knows.
const (
	CPU  Kind = "cpu"  // the processors and the main memory of this machine
	CUDA Kind = "cuda" // an NVIDIA GPU
)

// Info describes a device: how large it is, what it can do and where it sits.
type Info struct {
	// ID names the device on this machine, like "cpu:0".
	ID string `json:"id"`
	// Kind is the family.
	Kind Kind `json:"kind"`
	// Name is what the maker calls it.
	Name string `json:"name"`
	// MemoryBytes is the memory this process may hold on the device; 0 when it
	// cannot be found out.
	MemoryBytes int64 `json:"memory_bytes"`
	// Units counts what computes and can be given to jobs: for a CPU the cores
	// that this process may keep busy, for a GPU its multiprocessors.
	Units int `json:"units"`
	// CPUs lists the processor numbers this process may run on, ascending; empty
	// when they cannot be found out. A time quota can make Units smaller than
	// this list.
	CPUs []int `json:"cpus,omitempty"`
	// NUMA lists the memory nodes the device spans, ascending by ID.
	NUMA []NUMANode `json:"numa_nodes,omitempty"`
	// Features lists the instruction sets that kernels choose by, in the
	// spelling of the operating system, ascending.
	Features []string `json:"features,omitempty"`
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
