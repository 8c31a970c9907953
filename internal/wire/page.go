package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Kinds of errors about pages, for errors.Is.
var (
	// ErrPage: what was given is not a page of this version.
	ErrPage = errors.New("not a page of this version")
	// ErrUnsupported: this system has no such shared memory.
	ErrUnsupported = errors.New("not supported on this system")
)

// Page is a job's page as mapped into this process. The zero value is not usable; see [NewPage],
// [MapPage] and [OverlayPage].
type Page struct {
	l   *layout
	mem []byte   // to unmap, nil if it was not mapped here
	f   *os.File // nil if there is none
}

// OverlayPage makes a page of memory that lies at a multiple of eight bytes, has [PageSize] bytes
// and stays in use as long as the page.
func OverlayPage(mem []byte) (*Page, error) {
	l, err := overlay(mem)
	if err != nil {
		return nil, err
	}
	return &Page{l: l}, nil
}

// Header returns the page's first part.
func (p *Page) Header() *Header { return &p.l.Header }

// Slot returns a slot, nil if there is none of that number.
func (p *Page) Slot(i uint32) *Slot {
	if i >= SlotCount {
		return nil
	}
	return &p.l.Slots[i]
}

// File returns the memory's descriptor, which belongs to the page; nil for an overlaid one.
func (p *Page) File() *os.File { return p.f }

// Close unmaps the page and closes its descriptor. The page must not be used from then on; other
// processes' mappings remain.
func (p *Page) Close() error {
	var err error
	if p.mem != nil {
		err = unmap(p.mem)
	}
	if p.f != nil {
		err = errors.Join(err, p.f.Close())
	}
	p.l, p.mem, p.f = nil, nil, nil
	return err
}

// Terms are what a page says of its job.
type Terms struct {
	Token         Token
	Name          string
	CreatorUID    uint32
	ControllerPID uint32
	MemCap        uint64        // bytes
	MemTotal      uint64        // bytes that the program is told the device has
	ComputePPM    uint32        // guaranteed share, in millionths
	LimitPPM      uint32        // share never exceeded, in millionths; 0: all
	Class         uint32        // ClassStandard, ...
	Device        uint32        // ordinal
	UUID          [16]byte      // of the device
	InFlight      time.Duration // predicted device time that may be in flight
	Free          time.Duration // kernels predicted to take no longer pass the closed gate
	// ThreadPercent is the active thread percentage of processes that begin from here on, which
	// must be clients of MPS, 1 to 100; 0: they need not.
	ThreadPercent uint32
	// Movable says that the programs' memory is to be such as can be moved to the host.
	Movable bool
}

// Format writes a page's fixed part: that of a new one before it is given to anybody, and later to
// put right what programs wrote over it.
func (p *Page) Format() {
	h := p.Header()
	h.Magic.Store(Magic)
	h.Version.Store(Version)
	h.PageSize.Store(PageSize)
	h.SlotCount.Store(SlotCount)
	h.SlotSize.Store(SlotSize)
	h.SlotsOffset.Store(SlotsOffset)
}

// Check reports, as [ErrPage], that the fixed part is not that of this version.
func (p *Page) Check() error {
	h := p.Header()
	for _, f := range []struct {
		name string
		got  *atomic.Uint32
		want uint32
	}{
		{"magic", &h.Magic, Magic}, {"version", &h.Version, Version},
		{"page_size", &h.PageSize, PageSize},
		{"slot_count", &h.SlotCount, SlotCount}, {"slot_size", &h.SlotSize, SlotSize},
		{"slots_offset", &h.SlotsOffset, SlotsOffset},
	} {
		if got := f.got.Load(); got != f.want {
			return fmt.Errorf("page: %s is %#x, want %#x: %w", f.name, got, f.want, ErrPage)
		}
	}
	return nil
}

// SetTerms writes the terms, of which the name is cut to what fits. One goroutine of one agent may
// do so at a time.
func (p *Page) SetTerms(t Terms) {
	h := p.Header()
	seq := h.TermsSeq.Load() &^ 1
	h.TermsSeq.Store(seq + 1)
	h.MemCapBytes.Store(t.MemCap)
	h.MemTotalReported.Store(t.MemTotal)
	h.Class.Store(t.Class)
	h.DeviceOrdinal.Store(t.Device)
	h.InflightBoundNS.Store(uint64(t.InFlight))
	h.FreeNS.Store(uint64(t.Free))
	storeBytes(h.DeviceUUID[:], t.UUID[:])
	storeBytes(h.Token[:], t.Token[:])
	h.CreatorUID.Store(t.CreatorUID)
	h.ControllerPID.Store(t.ControllerPID)
	h.ComputePPM.Store(t.ComputePPM)
	h.LimitPPM.Store(t.LimitPPM)
	h.ThreadPercent.Store(t.ThreadPercent)
	h.Movable.Store(0)
	if t.Movable {
		h.Movable.Store(1)
	}
	var name [NameSize]byte
	copy(name[:], TrimName(t.Name))
	storeBytes(h.Name[:], name[:])
	h.TermsSeq.Store(seq + 2)
}

// seqTries bounds how often Terms is read again while somebody writes it: a writer needs less than
// a microsecond, unless it died.
const seqTries = 1000

// Terms reads the terms. It fails with [ErrPage] if they are being written all the time or hold
// what no agent writes: a fraction above one, an unknown class, a name that is not text.
func (p *Page) Terms() (Terms, error) {
	h := p.Header()
	for range seqTries {
		seq := h.TermsSeq.Load()
		if seq&1 == 0 {
			t := p.readTerms()
			if h.TermsSeq.Load() == seq {
				return t, t.Validate()
			}
		}
		runtime.Gosched()
	}
	return Terms{}, fmt.Errorf("page: terms are being written all the time: %w", ErrPage)
}

func (p *Page) readTerms() Terms {
	h := p.Header()
	t := Terms{
		CreatorUID: h.CreatorUID.Load(), ControllerPID: h.ControllerPID.Load(),
		MemCap: h.MemCapBytes.Load(), MemTotal: h.MemTotalReported.Load(),
		ComputePPM: h.ComputePPM.Load(), LimitPPM: h.LimitPPM.Load(),
		Class: h.Class.Load(), Device: h.DeviceOrdinal.Load(),
		InFlight: time.Duration(h.InflightBoundNS.Load()), Free: time.Duration(h.FreeNS.Load()),
		ThreadPercent: h.ThreadPercent.Load(), Movable: h.Movable.Load() != 0,
	}
	var name [NameSize]byte
	loadBytes(name[:], h.Name[:])
	loadBytes(t.Token[:], h.Token[:])
	loadBytes(t.UUID[:], h.DeviceUUID[:])
	t.Name = strings.TrimRight(string(name[:]), "\x00")
	return t
}

// Validate reports, as [ErrPage], terms that no agent writes: a fraction above one, an unknown
// class, no memory, a name that is not text.
func (t *Terms) Validate() error {
	bad := ""
	switch {
	case t.ComputePPM > PPM || t.LimitPPM > PPM:
		bad = fmt.Sprintf("a share of %d and a limit of %d millionths", t.ComputePPM, t.LimitPPM)
	case t.Class > ClassOpportunistic:
		bad = fmt.Sprintf("class %d", t.Class)
	case t.MemCap == 0 || t.MemCap>>62 != 0 || t.MemTotal>>62 != 0:
		bad = fmt.Sprintf("a cap of %d of %d bytes", t.MemCap, t.MemTotal)
	case t.InFlight <= 0 || t.InFlight > time.Second:
		bad = fmt.Sprintf("an in-flight bound of %d ns", int64(t.InFlight))
	case t.Free < 0 || t.Free > time.Second:
		bad = fmt.Sprintf("kernels of %d ns that pass", int64(t.Free))
	case t.ThreadPercent > 100:
		bad = fmt.Sprintf("%d percent of the threads", t.ThreadPercent)
	case !printable(t.Name):
		bad = fmt.Sprintf("the name %q", t.Name)
	}
	if bad == "" {
		return nil
	}
	return fmt.Errorf("page: terms with %s: %w", bad, ErrPage)
}

// printable reports whether a name can be shown to people.
func printable(s string) bool {
	return strings.TrimSpace(s) != "" && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return r < ' ' || r == 0x7f
		})
}

func storeBytes(words []atomic.Uint64, b []byte) {
	for i := range words {
		words[i].Store(binary.NativeEndian.Uint64(b[8*i:]))
	}
}

func loadBytes(b []byte, words []atomic.Uint64) {
	for i := range words {
		binary.NativeEndian.PutUint64(b[8*i:], words[i].Load())
	}
}

// IsOpen reports whether a gate's value means that launches may pass.
func IsOpen(gate uint32) bool { return gate&1 == 1 }

// NextGate returns the value that follows when the gate is opened or closed: odd means open, and
// every change is told apart from the ones before.
func NextGate(gate uint32, open bool) uint32 {
	if IsOpen(gate) == open {
		return gate
	}
	return gate + 1
}

// PassGate returns the value that follows a closed gate's when one launch may pass it, or may not
// any more: closed too, and not 0, which stands for no pass.
func PassGate(gate uint32) uint32 {
	if gate += 2; gate == 0 {
		return 2
	}
	return gate
}

// NextMove returns the value of Header.Move that follows with an order: odd means that the memory
// is to be on the host, and every order is told apart from the ones before.
func NextMove(move uint32, away bool) uint32 {
	move = (move | 1) + 1
	if away {
		move |= 1
	}
	return move
}

// IsAway reports whether a value of Header.Move orders the memory to the host.
func IsAway(move uint32) bool { return move&1 == 1 }

// Claim makes a free slot a process's, with everything else in it zero. Only the agent calls it.
func (s *Slot) Claim(pid uint32, start uint64) {
	s.Clear()
	s.OwnerStart.Store(start)
	s.OwnerPID.Store(pid)
}

// Clear makes a slot free, of which the process is gone. Only the agent calls it.
func (s *Slot) Clear() {
	for _, w := range []*atomic.Uint32{&s.State, &s.Waiting, &s.WantSeq, &s.DrainedSeq,
		&s.ErrorFlags, &s.ThreadPercent, &s.AskSeq, &s.AnswerSeq, &s.Stalled, &s.Stalls} {
		w.Store(0)
	}
	for _, w := range []*atomic.Uint64{&s.MemUsedBytes, &s.MemPendingBytes, &s.MemContextBytes,
		&s.InflightNS, &s.DeviceNSTotal, &s.Launches, &s.GraphLaunches, &s.CopiesBytes,
		&s.LastLaunchNS, &s.LastIdleNS, &s.MeasuredBytes, &s.FoundBytes, &s.PassedNS,
		&s.MovableBytes, &s.AwayBytes, &s.HostBytes, &s.SpilledBytes, &s.OwnerStart} {
		w.Store(0)
	}
	s.OwnerPID.Store(0)
}

// MemoryHeld returns the bytes that all slots hold together, as far as the page can be believed: a
// sum that does not fit comes out as the largest number.
func (p *Page) MemoryHeld() uint64 {
	var sum uint64
	for i := range p.l.Slots {
		s := &p.l.Slots[i]
		sum = saturate(sum, s.MemoryHeld())
	}
	return sum
}

// MemoryHeld returns the bytes that the slot's process holds: what it counts, and what was found
// beyond that.
func (s *Slot) MemoryHeld() uint64 {
	return saturate(saturate(s.MemUsedBytes.Load(), s.MemContextBytes.Load()), s.FoundBytes.Load())
}

func saturate(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
