package far

import (
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
)

// bus takes copies to the device one after the other, in the order in which they come, for as long
// as its description says. Those of [device.Small] it takes between the packets of others.
//
// Who copies here is a thread of the host, and returns somewhat after the end of its copy. The next
// copy begins as much sooner, or what the thread is late by would add up over the copies that
// follow one another, as it does not where a bus moves bytes by itself.
type bus struct {
	of   device.Bus
	told func(bytes int, late time.Duration) // of each copy when it has ended; nil: nobody

	mu   sync.Mutex
	free time.Time     // when it is done with all copies that have come
	back time.Time     // when the last one returned
	late time.Duration // by how much that was after its end
}

// following is for how long after one copy another counts as the one that follows it: about what
// waking a thread takes, by order of magnitude. One that comes later had other things to wait for.
const following = 100 * time.Microsecond

// Bus implements [device.Bused].
func (d *Device) Bus() (device.Bus, bool) { return d.bus.of, d.bus.of.BytesPerS > 0 }

// take has the next copy begin when it can, and returns when it ends.
func (b *bus) take(now time.Time, bytes int) (end time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	takes := b.of.Transfer(int64(bytes))
	came := now
	if now.Sub(b.back) < following {
		came = now.Add(-b.late)
	}
	if b.free.Before(came) {
		b.free = came
	}
	b.free = b.free.Add(takes)
	if bytes <= device.Small {
		return now.Add(takes)
	}
	b.late = 0 // once
	return b.free
}

// ended notes when a copy returned that was to end at a time.
func (b *bus) ended(now, end time.Time, bytes int) {
	if bytes <= device.Small {
		return
	}
	late := now.Sub(end)
	if b.told != nil {
		b.told(bytes, late)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.back, b.late = now, late
}

// copy moves bytes to memory of the device.
func (b *bus) copy(mem, src []byte) {
	if b.of.BytesPerS <= 0 {
		copy(mem, src)
		return
	}
	end := b.take(time.Now(), len(src))
	copy(mem, src)
	now := time.Now()
	for now.Before(end) {
		rest(end.Sub(now))
		then := time.Now()
		if then.Equal(now) { // virtual time does not pass while a thread sleeps
			time.Sleep(end.Sub(now))
			then = time.Now()
		}
		now = then
	}
	b.ended(now, end, len(src))
}
