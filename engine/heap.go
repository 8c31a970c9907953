package engine

import (
	"fmt"

	"github.com/weirgpu/weir/device"
)

// heap grants memory for an instance's values whose shape depends on data, on a device whose memory
// is the host's. These values live on the Go heap, where using too much ends the process and all
// jobs in it. So heap refuses what exceeds the device's memory, even where the quota would grant
// it.
type heap struct {
	quota  device.Quota
	device device.Info
	held   int64 // one goroutine runs an instance
}

// Reserve implements device.Quota.
func (h *heap) Reserve(n int64) error {
	if has := h.device.MemoryBytes; has > 0 && (n > has || h.held > has-n) {
		return fmt.Errorf(
			"wants %d bytes beside %d, %s has %d: %w: lower the sizes that the inputs ask for", n,
			h.held, h.device.ID, has, device.ErrOutOfMemory)
	}
	if err := h.quota.Reserve(n); err != nil {
		return err
	}
	h.held += n
	return nil
}

// Release implements device.Quota.
func (h *heap) Release(n int64) {
	h.held -= n
	h.quota.Release(n)
}
