package weir

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
)

// offered is done once the first host offers what it shares to jobs that are no models, such as
// those of a server: this package's interface does not name devices. A program without a host has
// nothing of that in it.
var offered sync.Once

func offer() { seat.Of = func(host any) seat.Shop { return host.(*Host).shop() } }

// shop is what the host shares.
func (h *Host) shop() seat.Shop {
	return seat.Shop{Machine: h.machine, Broker: h.broker, Enter: h.guest, Left: h.guestLeft,
		Bound: func(t any, most share.Bytes) { t.(*Tenant).bound(most) },
		Kind:  func(err error) error { return classify(err, ErrOption) }}
}

// bound is seat.Shop's Bound.
func (t *Tenant) bound(most share.Bytes) {
	t.model.tenancy.Load().most.Store(int64(cmp.Or(most, t.host.broker.Status().Memory)))
}

// guest keeps the machine open until [Host.guestLeft].
func (h *Host) guest() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("%w: the host of device %s", ErrClosed, h.id)
	}
	h.guests++
	return nil
}

func (h *Host) guestLeft() {
	h.mu.Lock()
	h.guests--
	last := h.closed && h.empty()
	h.mu.Unlock()
	if last {
		_ = h.release() // nothing is held of the device, so it closes
	}
}
