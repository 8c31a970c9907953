package far

import (
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
)

// TestBusInOrder: copies take the bus in the order in which they come, one that comes when it is
// free at once, and one of a few bytes too, which delays those that come later.
func TestBusInOrder(t *testing.T) {
	b := bus{of: device.Bus{BytesPerS: 1e9, PerTransfer: time.Millisecond}}
	begin := time.Now()
	for _, c := range []struct {
		come  time.Duration
		bytes int
		end   time.Duration
	}{
		{0, 9e6, 10 * time.Millisecond},
		{2 * time.Millisecond, 0, 3 * time.Millisecond},
		{3 * time.Millisecond, 1e6, 13 * time.Millisecond},
		{20 * time.Millisecond, 4e6, 25 * time.Millisecond},
	} {
		if end := b.take(begin.Add(c.come), c.bytes).Sub(begin); end != c.end {
			t.Errorf("%d bytes that come after %v end after %v, want %v", c.bytes, c.come, end,
				c.end)
		}
	}
}

// TestBusCatchesUp: what the thread that copies is late by, the next copy has back, once, if it
// follows at once; what comes between the two does count.
func TestBusCatchesUp(t *testing.T) {
	const takes, bytes = 2 * time.Millisecond, 2e6
	var told []time.Duration
	b := bus{of: device.Bus{BytesPerS: 1e9}, told: func(n int, late time.Duration) {
		if n != bytes {
			t.Errorf("told of %d bytes", n)
		}
		told = append(told, late)
	}}
	now := time.Now()
	copied := func(pause, late, want time.Duration) {
		t.Helper()
		now = now.Add(pause)
		end := b.take(now, bytes)
		if got := end.Sub(now); got != want {
			t.Errorf("a copy that comes %v after the last ends after %v, want %v", pause, got, want)
		}
		now = end.Add(late)
		b.ended(now, end, bytes)
	}
	const us = time.Microsecond
	copied(0, 300*us, takes)
	copied(10*us, 3*takes, takes-300*us) // had back, less than what came between
	copied(0, 0, takes-3*takes)          // also where that is over the whole copy
	copied(0, 40*us, takes)              // once
	copied(following, 40*us, takes)      // it had other things to wait for
	copied(following-1, 0, takes-40*us)  // or followed
	if end := b.take(now, 10); end != now.Add(10) {
		t.Errorf("a small copy ends after %v", end.Sub(now))
	}
	b.ended(now.Add(time.Second), now, 10)
	now = now.Add(20 * us)
	copied(0, 0, takes)
	want := []time.Duration{300 * us, 3 * takes, 0, 40 * us, 40 * us, 0, 0}
	if !slices.Equal(told, want) {
		t.Errorf("told of copies late by %v, want %v", told, want)
	}
}

// TestLateCopiesAreTold: behind a bus that no host plays, each copy is late by all that it takes.
func TestLateCopiesAreTold(t *testing.T) {
	var late []time.Duration
	d, err := Open("far", Options{Bus: device.Bus{BytesPerS: 1e15},
		Late: func(_ int, by time.Duration) { late = append(late, by) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	src := make([]byte, 4<<20)
	buffer, err := d.Alloc(int64(len(src)))
	if err != nil {
		t.Fatal(err)
	}
	defer buffer.Free()
	const tries = 21 // the first meets new pages, and a thread may lose its core between two copies
	followed := 0
	for range tries {
		time.Sleep(2 * following)
		late = nil
		for _, n := range []int{len(src), device.Small, len(src)} {
			if err := buffer.CopyIn(0, src[:n]); err != nil {
				t.Fatal(err)
			}
		}
		if len(late) != 2 || late[0] <= 0 || late[1] <= 0 {
			t.Fatalf("late by %v, want two", late)
		}
		if late[1] > late[0]*3/2 {
			followed++
		}
	}
	if followed <= tries/2 {
		t.Errorf("%d of %d are late by what the one before was, too", followed, tries)
	}
}

// TestSmallCopiesTakeTheBus: a copy that comes while a small one takes a bus that was idle ends
// later by that one, also where it has something back.
func TestSmallCopiesTakeTheBus(t *testing.T) {
	const small, bytes, us = 50_000, 2e6, time.Microsecond
	b := bus{of: device.Bus{BytesPerS: 1e9}}
	now := time.Now()
	comes := func(n int, want time.Duration) {
		t.Helper()
		if got := b.take(now, n).Sub(now); got != want {
			t.Errorf("a copy of %d bytes ends after %v, want %v", n, got, want)
		}
	}
	comes(small, 50*us)
	comes(bytes, 2050*us)
	now = now.Add(time.Second)
	comes(small, 50*us)
	comes(small, 50*us)
	comes(bytes, 2100*us)
	end := now.Add(2100 * us)
	now = end.Add(300 * us)
	b.ended(now, end, bytes)
	comes(small, 50*us)
	comes(bytes, 1750*us) // it has the 300 back, and the small one takes 50
}
