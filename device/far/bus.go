package far

import (
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
)

// bus takes copies to the device one after the other, in the order in which they come, for as long
// as its description says. Those of [device.Small] it takes between the packets of others.
type bus struct {
	of device.Bus

	mu   sync.Mutex
	free time.Time // when it is done with all copies that have come
}

// Bus implements [device.Bused].
func (d *Device) Bus() (device.Bus, bool) { return d.bus.of, d.bus.of.BytesPerS > 0 }

// take has the next copy begin when it can, and returns when it ends.
func (b *bus) take(now time.Time, bytes int) (end time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	takes := b.of.Transfer(int64(bytes))
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(takes)
	if bytes <= device.Small {
		return now.Add(takes)
	}
	return b.free
}

// copy moves bytes to memory of the device.
func (b *bus) copy(mem, src []byte) {
	if b.of.BytesPerS <= 0 {
		copy(mem, src)
		return
	}
	end := b.take(time.Now(), len(src))
	copy(mem, src)
	for now := time.Now(); now.Before(end); {
		rest(end.Sub(now))
		then := time.Now()
		if then.Equal(now) { // virtual time does not pass while a thread sleeps
			time.Sleep(end.Sub(now))
		}
		now = then
	}
}
