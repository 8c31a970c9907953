package wire

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"
)

// TestHeaderIsGenerated holds the C header in the tree against the structures.
func TestHeaderIsGenerated(t *testing.T) {
	got, err := os.ReadFile("../shim/wire.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, CHeader()) {
		t.Error("internal/shim/wire.h is not what the structures give: go generate ./internal/wire")
	}
}

// TestHeaderCompiles lets a C compiler check every offset that the header asserts.
func TestHeaderCompiles(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	src := filepath.Join(dir, "layout.c")
	if err := os.WriteFile(filepath.Join(dir, "wire.h"), CHeader(), 0o666); err != nil {
		t.Fatal(err)
	}
	text := `#include "wire.h"
#include "wire.h"
_Static_assert(WEIR_SLOTS_OFFSET == sizeof(struct weir_header), "slots follow the header");
_Static_assert(WEIR_SLOT_SIZE == sizeof(struct weir_slot), "slot");
_Static_assert(WEIR_SLOTS_OFFSET + WEIR_SLOT_COUNT * WEIR_SLOT_SIZE <= WEIR_PAGE_SIZE, "page");
_Static_assert(offsetof(struct weir_header, gate) % 64 == 0, "the gate begins a cache line");
`
	if err := os.WriteFile(src, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
		src).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLayout holds the offsets that the design fixes.
func TestLayout(t *testing.T) {
	var l layout
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"page", unsafe.Sizeof(l), PageSize},
		{"header", unsafe.Sizeof(l.Header), SlotsOffset},
		{"slot", unsafe.Sizeof(l.Slots[0]), SlotSize},
		{"slots", unsafe.Offsetof(l.Slots), SlotsOffset},
		{"terms_seq", unsafe.Offsetof(l.Header.TermsSeq), 64},
		{"gate", unsafe.Offsetof(l.Header.Gate), 128},
		{"denied_allocs", unsafe.Offsetof(l.Header.DeniedAllocs), 192},
		{"token", unsafe.Offsetof(l.Header.Token), 256},
		{"mem_used", unsafe.Offsetof(l.Slots[0].MemUsedBytes), 16},
		{"waiting", unsafe.Offsetof(l.Slots[0].Waiting), 40},
		{"drained_seq", unsafe.Offsetof(l.Slots[0].DrainedSeq), 104},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	for _, s := range structures[2:] {
		if s.of.Size() != MessageSize {
			t.Errorf("%s: %d bytes", s.name, s.of.Size())
		}
	}
	for _, s := range structures {
		for _, f := range reflect.VisibleFields(s.of) {
			size := f.Type.Size()
			if f.Type.Kind() == reflect.Array {
				size = f.Type.Elem().Size()
			}
			if !f.Anonymous && offset(s.of, f)%size != 0 {
				t.Errorf("%s.%s at %d is not aligned", s.name, f.Name, offset(s.of, f))
			}
		}
	}
}

func messages() []Message {
	token := Token{1, 2, 15: 16}
	return []Message{
		NewHello(Hello{Token: token, PID: 7, Version: Version, Slot: NoSlot}, 0),
		NewHello(Hello{Token: token, PID: 7, Version: Version, Slot: 3, MemUsed: 1 << 40,
			Generation: 9}, FlagRejoin),
		NewSignal(KindWant, 1, 2), NewSignal(KindDrained, 63, 4), NewSignal(KindIdle, 0, 5),
		NewSignal(KindBye, 5, 0),
		NewCreate(Create{Memory: 8 << 30, ComputePPM: 300000, LimitPPM: 500000,
			Class: ClassOpportunistic, Device: 1, PID: 99, Version: 1, TextLen: 4}, 0),
		NewTop(Top{IntervalMS: 500}),
		NewWelcome(Welcome{Slot: 4, PageSize: PageSize, Generation: 1}, FlagMeasures),
		NewRefused(Refused{Code: RefusedAdmission, TextLen: 4}),
		NewCreated(Created{Token: token, Memory: 1, MemoryTotal: 2, PageSize: PageSize, TextLen: 4,
			PipeLen: 1, ThreadPercent: 30}, FlagService),
		NewSnapshot(Snapshot{TextLen: 4}, FlagMore),
		NewNote(3, "cuNoSuchCall"),
		NewSet(Set{Memory: 1 << 30, Fields: FieldMemory | FieldClass, ComputePPM: 1, LimitPPM: 2,
			Class: ClassLatency, Device: NoDevice, Version: Version, TextLen: 4}),
		NewPolicy(Policy{Version: Version, TextLen: 4}),
		NewDone(Done{TextLen: 4}),
		NewSignal(KindMeasure, 5, 7),
		NewStays(Stays{Slot: 3, Contexts: 1, Managed: 2, Arrays: 3, Mapped: 4, Pools: 5, Small: 6}),
		NewMoved(Moved{Slot: 3, Move: 9, Code: MovedHost, Bytes: 1, Needs: 2, Has: 3, Opened: 4,
			NS: 5}),
		NewFreeze(Freeze{Device: NoDevice, Version: Version}, true),
		NewRelease(Release{Version: Version, TextLen: 4}),
	}
}

// TestNoteNames holds that nothing but a name comes out of a note, whatever was put in.
func TestNoteNames(t *testing.T) {
	const long = "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
	for in, want := range map[string]string{
		"cuLaunchKernel_v9": "cuLaunchKernel_v9", "": "", "cu\x1b[31m": "cu", "a\nlevel=ERROR": "a",
		long + "AndMore": long,
	} {
		if got := NewNote(1, in).Name(); got != want {
			t.Errorf("%q came out as %q", in, got)
		}
	}
}

func packetOf(m Message) []byte {
	b := m.Append(nil)
	switch m.(type) {
	case Create, Refused, Created, Snapshot, Set, Policy, Release, Done:
		b = append(b, "text"...)
	}
	return b
}

func TestMessagesReturn(t *testing.T) {
	for _, m := range messages() {
		got, text, err := Decode(packetOf(m))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
		if len(text) > 0 && string(text) != "text" {
			t.Errorf("%+v: text %q", m, text)
		}
		if KindOf(got) == 0 {
			t.Errorf("%+v has no kind", got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	change := func(m Message, at int, v byte) []byte { b := packetOf(m); b[at] = v; return b }
	hello, want, refused := messages()[0], messages()[2], messages()[9]
	for name, b := range map[string][]byte{
		"nothing":       nil,
		"short":         packetOf(hello)[:63],
		"long":          append(packetOf(hello), 0),
		"kind":          change(hello, 0, 200),
		"kind 0":        make([]byte, MessageSize),
		"flags":         change(hello, 4, 2),
		"flags of want": change(want, 4, 1),
		"reserved":      change(want, 63, 1),
		"text missing":  packetOf(refused)[:MessageSize],
		"text length":   change(refused, 12, 5),
		"enormous":      make([]byte, MaxPacket+1),
	} {
		if m, _, err := Decode(b); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: got %+v, %v", name, m, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		f.Add(packetOf(m))
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, text, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMessage) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if again := append(m.Append(nil), text...); !bytes.Equal(again, b) {
			t.Errorf("read %x, wrote %x", b, again)
		}
	})
}

func TestToken(t *testing.T) {
	want := Token{0xab, 15: 0x01}
	got, err := ParseToken(want.String())
	if err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "ab", "zz" + want.String()[2:], want.String() + "0"} {
		if _, err := ParseToken(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func terms() Terms {
	return Terms{
		Token: Token{1, 2, 3}, Name: "train", CreatorUID: 1000, ControllerPID: 7, MemCap: 8 << 30,
		MemTotal:   80 << 30,
		ComputePPM: 300000, LimitPPM: 500000, Class: ClassLatency, Device: 1,
		UUID: [16]byte{9, 15: 8}, InFlight: 2 * time.Millisecond, ThreadPercent: 25,
		Movable: true,
	}
}

func TestTermsReturn(t *testing.T) {
	p := newOverlay(t, make([]byte, PageSize))
	p.Format()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Terms(); !errors.Is(err, ErrPage) {
		t.Errorf("a page without terms has some: %v", err)
	}
	p.SetTerms(terms())
	if got, err := p.Terms(); err != nil || got != terms() {
		t.Errorf("%+v, %v", got, err)
	}
	long := terms()
	long.Name = "a name of more than 32 bytes: \u00e4\u00e4\u00e4"
	p.SetTerms(long)
	if got, err := p.Terms(); err != nil || got.Name != "a name of more than 32 bytes: \u00e4" {
		t.Errorf("%q, %v", got.Name, err)
	}
	p.Header().TermsSeq.Add(1) // a writer died
	if _, err := p.Terms(); !errors.Is(err, ErrPage) {
		t.Errorf("terms half written are believed: %v", err)
	}
}

// TestTermsAreWhole reads terms while they are written.
func TestTermsAreWhole(t *testing.T) {
	p := newOverlay(t, make([]byte, PageSize))
	a, b := terms(), terms()
	b.Name, b.MemCap, b.Class, b.Token = "other", 1<<20, ClassOpportunistic, Token{7}
	p.SetTerms(a)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			p.SetTerms(b)
			p.SetTerms(a)
		}
	}()
	for range 2000 {
		if got, err := p.Terms(); err == nil && got != a && got != b {
			t.Fatalf("torn terms: %+v", got)
		}
	}
	<-done
}

func newOverlay(t testing.TB, mem []byte) *Page {
	t.Helper()
	p, err := OverlayPage(mem)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func FuzzPage(f *testing.F) {
	good := make([]byte, PageSize)
	p := newOverlay(f, good)
	p.Format()
	p.SetTerms(terms())
	p.Slot(3).Claim(7, 8)
	f.Add(good[:SlotsOffset+4*SlotSize])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := make([]byte, PageSize)
		copy(mem, b)
		p := newOverlay(t, mem)
		checked := p.Check()
		got, err := p.Terms()
		if err == nil {
			if got.Name == "" || got.MemCap == 0 || got.ComputePPM > PPM {
				t.Errorf("accepted %+v", got)
			}
			q := newOverlay(t, make([]byte, PageSize))
			q.SetTerms(got)
			if again, err := q.Terms(); err != nil || again != got {
				t.Errorf("%+v became %+v, %v", got, again, err)
			}
		}
		if checked == nil && string(mem[:4]) != "WEIR" {
			t.Error("accepted another magic")
		}
		p.MemoryHeld()
	})
}

func TestMemoryHeldSaturates(t *testing.T) {
	p := newOverlay(t, make([]byte, PageSize))
	p.Slot(0).Claim(1, 1)
	p.Slot(0).MemUsedBytes.Store(100)
	p.Slot(1).MemContextBytes.Store(28)
	if got := p.MemoryHeld(); got != 128 {
		t.Errorf("held %d", got)
	}
	p.Slot(2).MemUsedBytes.Store(^uint64(0))
	if got := p.MemoryHeld(); got != ^uint64(0) {
		t.Errorf("held %d", got)
	}
	p.Slot(0).Clear()
	if p.Slot(0).MemUsedBytes.Load() != 0 || p.Slot(SlotCount) != nil {
		t.Error("slot not cleared, or one too many")
	}
}

func TestGateValues(t *testing.T) {
	g := uint32(0xfffffffe)
	seen := map[uint32]bool{g: true}
	for i := range 6 {
		open := i%2 == 0
		if n := NextGate(g, open); n == g || seen[n] || IsOpen(n) != open ||
			NextGate(n, open) != n {
			t.Errorf("after %#x came %#x for open %v", g, n, open)
		} else {
			g, seen[n] = n, true
		}
	}
}
