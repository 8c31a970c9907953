package cpu

import (
	"testing"
	"unsafe"
)

// TestSharedWordsLieApart holds that each word which several threads write has a line of its own,
// and that what pads them is no more than that.
func TestSharedWordsLieApart(t *testing.T) {
	var s slot
	var p Pool
	for _, of := range [][]uintptr{
		{unsafe.Offsetof(s.word), unsafe.Offsetof(s.settled), unsafe.Offsetof(s.region)},
		{0, unsafe.Offsetof(p.open), unsafe.Offsetof(p.busy), unsafe.Offsetof(p.parked)},
	} {
		for i, at := range of {
			if at != uintptr(i)*lineBytes {
				t.Errorf("word %d of %v begins at byte %d, want %d", i, of, at, i*lineBytes)
			}
		}
	}
	if unsafe.Sizeof(s)-unsafe.Offsetof(s.failure) < lineBytes {
		t.Error("the next slot begins on the line where one ends")
	}
}
