package devicetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/device"
)

// testElastic gives stretches of a buffer back and takes them again, at random: each byte counts
// once, a device that is full takes none, and bytes beside those given back stay.
func testElastic(t *testing.T, open Open) {
	const size = 40_001
	d := open(t, 2*size).Device
	b, ok := alloc(t, d, size).(device.Elastic)
	if !ok {
		t.Skip("buffers that stay as they are")
	}
	r := rand.New(rand.NewPCG(13, 1))
	want, here := make([]byte, size), make([]bool, size)
	for i := range want {
		want[i], here[i] = byte(r.IntN(255)+1), true
	}
	if err := b.CopyIn(0, want); err != nil {
		t.Fatal(err)
	}
	var held int64 = size
	for range 100 {
		from, to := r.Int64N(size+9)-4, r.Int64N(size+9)-4
		back := r.IntN(2) == 0
		n := turn(here, from, to, !back)
		if back {
			if got := b.Decommit(from, to); got != n {
				t.Fatalf("bytes %d to %d gave %d back, want %d", from, to, got, n)
			}
			held -= n
		} else {
			if got, err := b.Commit(from, to); err != nil || got != n {
				t.Fatalf("bytes %d to %d took %d, want %d; error %v", from, to, got, n, err)
			}
			held += n
			from, to = max(0, from), min(to, size)
			if from < to {
				if err := b.CopyIn(from, want[from:to]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if d.Held() != held {
			t.Fatalf("%d bytes are held, want %d", d.Held(), held)
		}
		sameWhere(t, b, want, here)
	}
	fullOfAnother(t, d, b, size)
}

// turn marks bytes and returns how many had another mark.
func turn(here []bool, from, to int64, mark bool) (n int64) {
	for i := max(0, from); i < min(to, int64(len(here))); i++ {
		if here[i] != mark {
			n++
		}
		here[i] = mark
	}
	return n
}

// sameWhere compares the bytes of a buffer that are marked.
func sameWhere(t *testing.T, b device.Buffer, want []byte, here []bool) {
	t.Helper()
	for from := 0; from < len(here); {
		to := from
		for to < len(here) && here[to] {
			to++
		}
		got := make([]byte, to-from)
		if err := b.CopyOut(got, int64(from)); err != nil || !bytes.Equal(got, want[from:to]) {
			t.Fatalf("bytes %d to %d have changed, or error %v", from, to, err)
		}
		from = to + 1
	}
}

// fullOfAnother takes what another buffer holds by now, and frees a buffer that is not whole.
func fullOfAnother(t *testing.T, d device.Device, b device.Elastic, size int64) {
	t.Helper()
	b.Decommit(0, size)
	other := alloc(t, d, size+1)
	if n, err := b.Commit(0, size); !errors.Is(err, device.ErrOutOfMemory) || n != 0 {
		t.Errorf("a full device: %d bytes, error %v", n, err)
	}
	if n, err := b.Commit(1, size); err != nil || n != size-1 || d.Held() != 2*size {
		t.Errorf("a byte less: %d bytes of %d, error %v", n, d.Held(), err)
	}
	b.Free()
	if n := b.Decommit(0, size); n != 0 {
		t.Errorf("a freed buffer gives %d bytes back", n)
	}
	if _, err := b.Commit(0, size); !errors.Is(err, device.ErrBounds) {
		t.Errorf("takes bytes of a freed buffer: error %v", err)
	}
	if other.Free(); d.Held() != 0 {
		t.Errorf("%d bytes are held in the end", d.Held())
	}
}
