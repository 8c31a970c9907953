//go:build !linux || !(amd64 || arm64) || nogpu

package nvml

import (
	"io/fs"

	"github.com/weirgpu/weir/device"
)

// Built says whether this program can open the library at all.
const Built = false

// Options say where to look.
type Options struct {
	Path string
	Root fs.FS
}

// Library is NVML; there is none in this build.
type Library struct{}

// Open returns [ErrNotBuilt].
func Open(Options) (*Library, error) { return nil, ErrNotBuilt }

// Close does nothing.
func (*Library) Close() error { return nil }

// Driver returns a zero description.
func (*Library) Driver() device.Driver { return device.Driver{} }

// Devices returns none and [ErrNotBuilt].
func (*Library) Devices() ([]device.Info, error) { return nil, ErrNotBuilt }

// Processes returns none and [ErrNotBuilt].
func (*Library) Processes(uint32) (map[uint32]uint64, error) { return nil, ErrNotBuilt }

// Used returns [ErrNotBuilt].
func (*Library) Used(uint32) (uint64, error) { return 0, ErrNotBuilt }

// MemoryLimit returns [ErrNotBuilt].
func (*Library) MemoryLimit(uint32, string) (uint64, error) { return 0, ErrNotBuilt }

// SetMemoryLimit returns [ErrNotBuilt].
func (*Library) SetMemoryLimit(uint32, string, uint64) error { return ErrNotBuilt }

// Discover returns none and [ErrNotBuilt].
func Discover() ([]device.Info, error) { return nil, ErrNotBuilt }
