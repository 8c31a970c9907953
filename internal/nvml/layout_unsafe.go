package nvml

import "unsafe"

// The structures below are laid out as in nvml.h; the library writes into them.

// pciInfo is nvmlPciInfo_t. The structure of nvmlDeviceGetPciInfo_v2 begins alike and is not
// larger.
type pciInfo struct {
	LegacyID           [16]byte
	Domain, Bus, Dev   uint32
	DeviceID, SystemID uint32
	BusID              [32]byte
}

// memory is nvmlMemory_t, in bytes.
type memory struct {
	Total, Free, Used uint64
}

// memory2 is nvmlMemory_v2_t, in bytes.
type memory2 struct {
	Version                     uint32
	_                           uint32
	Total, Reserved, Free, Used uint64
}

// memory2Version is nvmlMemory_v2: the size, and the version in the top byte.
const memory2Version = uint32(unsafe.Sizeof(memory2{})) | 2<<24

// attributes is nvmlDeviceAttributes_t.
type attributes struct {
	Multiprocessors                            uint32
	CopyEngines, Decoders, Encoders, JPEG, OFA uint32
	GPUSlices, ComputeSlices                   uint32
	MemoryMiB                                  uint64
}

// processInfo is nvmlProcessInfo_v2_t.
type processInfo struct {
	PID                          uint32
	_                            uint32
	Used                         uint64
	GPUInstance, ComputeInstance uint32
}

// An array of negative length does not compile: both of a pair do only when the size is the one
// stated.
type (
	_ [unsafe.Sizeof(pciInfo{}) - 68]byte
	_ [68 - unsafe.Sizeof(pciInfo{})]byte
	_ [unsafe.Sizeof(memory{}) - 24]byte
	_ [24 - unsafe.Sizeof(memory{})]byte
	_ [unsafe.Sizeof(memory2{}) - 40]byte
	_ [40 - unsafe.Sizeof(memory2{})]byte
	_ [unsafe.Sizeof(attributes{}) - 40]byte
	_ [unsafe.Sizeof(processInfo{}) - 24]byte
	_ [24 - unsafe.Sizeof(processInfo{})]byte
	_ [40 - unsafe.Sizeof(attributes{})]byte
)
