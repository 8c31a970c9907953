package device

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestLedgerClosesAtOnce closes accounts while bytes are reserved: what was granted keeps them
// open, and once they are closed nothing is granted.
func TestLedgerClosesAtOnce(t *testing.T) {
	const rounds = 4000
	ledgers, reserved := make([]*Ledger, rounds), make([]error, rounds)
	for i := range ledgers {
		ledgers[i] = NewLedger("cpu:0", 10)
	}
	var arrived atomic.Int64
	meet := func(i int) { // both goroutines, so that they begin a round together
		arrived.Add(1)
		for spins := 1; arrived.Load() < int64(2*(i+1)); spins++ {
			if spins%1000 == 0 { // there may be one processor
				runtime.Gosched()
			}
		}
	}
	ended := make(chan bool)
	go func() {
		for i, l := range ledgers {
			meet(i)
			reserved[i] = l.Reserve(3)
		}
		close(ended)
	}()
	closed := make([]error, rounds)
	for i, l := range ledgers {
		meet(i)
		closed[i] = l.Close()
	}
	<-ended
	for i, l := range ledgers {
		r, c := reserved[i], closed[i]
		if (r == nil) == (c == nil) || r != nil && !errors.Is(r, ErrClosed) ||
			c != nil && !errors.Is(c, ErrInUse) {
			t.Fatalf("round %d: Reserve: error %v; Close at the same time: error %v", i, r, c)
		}
		if r == nil {
			l.Release(3)
		}
		if err := l.Close(); err != nil || l.Held() != 0 {
			t.Fatalf("Close in the end: error %v, %d bytes held", err, l.Held())
		}
	}
}

// TestLedgerCounts holds that accounts without a limit refuse what cannot be counted, and stay open
// and right.
func TestLedgerCounts(t *testing.T) {
	l := NewLedger("cpu:0", 0)
	if err := l.Reserve(math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{1, math.MaxInt64} {
		if err := l.Reserve(n); !errors.Is(err, ErrOutOfMemory) || l.Held() != math.MaxInt64 {
			t.Errorf("%d bytes more: error %v, %d held", n, err, l.Held())
		}
	}
	l.Release(math.MaxInt64)
	if err := l.Reserve(1); err != nil || l.Held() != 1 {
		t.Errorf("after all was released: error %v, %d held", err, l.Held())
	}
}
