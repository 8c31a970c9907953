package far

import (
	"runtime"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
)

// bus takes copies to the device one after the other, for as long as its description says.
type bus struct {
	of device.Bus
	mu sync.Mutex // held by the copy under way
}

// Bus implements [device.Bused].
func (d *Device) Bus() (device.Bus, bool) { return d.bus.of, d.bus.of.BytesPerS > 0 }

// copy moves bytes to memory of the device.
func (b *bus) copy(mem, src []byte) {
	if b.of.BytesPerS <= 0 {
		copy(mem, src)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	end := time.Now().Add(b.of.Transfer(int64(len(src))))
	copy(mem, src)
	// The system's timers may be late by as much as a small copy takes.
	const late = 200 * time.Microsecond
	time.Sleep(time.Until(end) - late)
	for time.Now().Before(end) {
		runtime.Gosched()
	}
}
