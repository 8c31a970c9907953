//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import "unsafe"

// setMemoryLimits is nvmlSetMemoryLimits_v1_t: a group's folder, and bytes.
type setMemoryLimits struct {
	Namespace  *byte
	Soft, Hard uint64
}

// getMemoryLimits is nvmlGetMemoryLimits_v1_t.
type getMemoryLimits struct {
	Namespace        *byte
	Soft, Hard, Used uint64
}

// As in layout_unsafe.go: a pair compiles when the size is the one stated.
type (
	_ [unsafe.Sizeof(setMemoryLimits{}) - 24]byte
	_ [24 - unsafe.Sizeof(setMemoryLimits{})]byte
	_ [unsafe.Sizeof(getMemoryLimits{}) - 32]byte
	_ [32 - unsafe.Sizeof(getMemoryLimits{})]byte
)
