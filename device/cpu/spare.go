package cpu

import (
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
)

// block is the memory that changes hands at a time: a huge page.
const block = 2 << 20

// keepFor is how long memory that was given back is kept for who asks next. A job that takes the
// place of another asks within milliseconds; programs beside this one get what nobody asks for.
const keepFor = 200 * time.Millisecond

// spares are blocks that buffers have given back and whose pages are still where they were. Whoever
// commits memory gets them in place of new pages: their own at once, those of others by a change of
// the page tables. Memory that goes from one job to another, to and fro, then never passes through
// the system, which has to clear each page, and, in a virtual machine whose host takes free memory
// back, to wait for the host: some milliseconds for each huge page, within which whoever computes
// cannot give the processor to others.
//
// What is kept and what is held are together never more than was held at some time.
type spares struct {
	ledger *device.Ledger

	mu     sync.Mutex
	most   int64   // bytes held at a time
	blocks []spare // the longest kept first
	here   []int64 // of take
	timer  *time.Timer
	fixed  bool // the system does not move pages: nothing is kept
}

// spare is a block of a mapping, all of which was given back.
type spare struct {
	of    *mapping
	at    int64
	since time.Time
}

// give gives back those of a mapping's bytes from one to before another that share no page with
// others than those from first to before last, which were all given back. Whole blocks are kept.
func (s *spares) give(m *mapping, from, to, first, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin, end := m.blocks(first, last)
	begin, end = max(begin, from/block*block), min(end, (to+block-1)/block*block)
	if begin >= end || s.fixed {
		m.discard(from, to, first, last)
		return
	}
	m.discard(from, begin, first, last)
	m.discard(end, to, first, last)
	now, rest := time.Now(), len(s.blocks) == 0
	for at := begin; at < end; at += block {
		s.blocks = append(s.blocks, spare{m, at, now})
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(keepFor, s.expire)
	} else if rest {
		s.timer.Reset(keepFor)
	}
}

// take brings pages for the blocks from one offset to before another of a mapping, as far as there
// are any, and as was given back of them whole. Nobody uses these bytes yet.
func (s *spares) take(m *mapping, from, to int64, whole func(from, to int64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin, end := m.blocks(from, to)
	s.here = s.here[:0]
	s.blocks = slices.DeleteFunc(s.blocks, func(b spare) bool {
		switch {
		case b.of != m || b.at >= to || b.at+block <= from:
			return false
		case b.at >= begin && b.at < end:
			s.here = append(s.here, b.at)
		default: // of which other bytes stay away
			m.discard(b.at, b.at+block, b.at, b.at+block)
		}
		return true
	})
	slices.Sort(s.here)
	for at := begin; at < end && len(s.blocks) > 0; at += block {
		if _, here := slices.BinarySearch(s.here, at); here || !whole(at, at+block) {
			continue
		}
		last := s.blocks[len(s.blocks)-1]
		if !m.move(at, last.of, last.at) {
			s.fixed = true
			s.drop(len(s.blocks))
			break
		}
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
	s.trim()
}

// grown notes that the device holds more.
func (s *spares) grown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
}

// trim keeps what may be kept beside what is held; s.mu is held.
func (s *spares) trim() {
	held := s.ledger.Held()
	s.most = max(s.most, held)
	over := held + int64(len(s.blocks))*block - s.most
	s.drop(min(len(s.blocks), int((over+block-1)/block)))
}

// forget leaves the blocks of a mapping to who unmaps it.
func (s *spares) forget(m *mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = slices.DeleteFunc(s.blocks, func(b spare) bool { return b.of == m })
}

// expire gives the system what was kept for long enough.
func (s *spares) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := time.Now(), 0
	for n < len(s.blocks) && now.Sub(s.blocks[n].since) >= keepFor {
		n++
	}
	s.drop(n)
	if len(s.blocks) > 0 {
		s.timer.Reset(keepFor - now.Sub(s.blocks[0].since))
	}
}

// drop gives the n longest kept blocks to the system; s.mu is held.
func (s *spares) drop(n int) {
	if n <= 0 {
		return
	}
	for _, b := range s.blocks[:n] {
		b.of.discard(b.at, b.at+block, b.at, b.at+block)
	}
	s.blocks = slices.Delete(s.blocks, 0, n)
}
