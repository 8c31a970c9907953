package weir

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/engine"
)

// idleFor is how long an arena may be idle, at least, before it is given back.
const idleFor = 10 * time.Second

// idle gives back arenas that were made for more Runs at a time than there are. Each set of shapes
// keeps one for the next Run.
type idle struct {
	mu      sync.Mutex
	timer   *time.Timer
	watched bool
}

// watch has idle arenas looked for until none is left. It allocates the first time only.
func (w *idle) watch(m *model) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.watched:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(idleFor, m.trim)
	default:
		w.timer.Reset(idleFor)
	}
	w.watched = true
}

// stop ends the watch of a model that is closed.
func (w *idle) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// trim gives back the arenas that have been idle since it was called last.
func (m *model) trim() {
	m.idle.mu.Lock()
	m.idle.watched = false
	m.idle.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	again := false
	for _, v := range m.variants {
		again = v.trim() || again
	}
	if again {
		m.idle.watch(m)
	}
}

// trim does so for one set of shapes, and reports whether there is more to give back later.
func (v *variant) trim() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := max(0, min(v.unused, len(v.free)-1))
	for _, s := range v.free[:n] {
		v.drop(s)
	}
	v.free = slices.Delete(v.free, 0, n)
	v.unused = len(v.free)
	return len(v.free) > 1
}

// manyArenas is how many arenas of a model are worth looking for lost results among them.
const manyArenas = 16

// countArena counts an arena that was made. The garbage collector finds lost results, but knows
// nothing of memory outside of its heap, so it is called when their number doubles.
func (m *model) countArena() {
	if n := m.arenas.Add(1); n >= manyArenas && n&(n-1) == 0 {
		go runtime.GC()
	}
}

// lost is what a slot had that was lost with its result.
type lost struct {
	variant  *variant
	instance *engine.Instance
}

// reclaim frees the memory, and does not hand it to the next Run: somebody may still read it by
// mistake, whom wrong numbers would not tell.
func (l lost) reclaim() {
	m := l.variant.model
	m.lost.Do(func() {
		slog.Warn("weir: a Result was lost that is not closed: its memory is freed now; close "+
			"each Result once its outputs are not needed any more", "model", m.graph.Name)
	})
	l.instance.Free()
	m.arenas.Add(-1)
	m.end()
}

// reclaim closes a model whose Model was lost, unless its host has closed it.
func (m *model) reclaim() {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		return
	}
	slog.Warn("weir: a Model was lost that is not closed: its memory is freed now; close each "+
		"Model once it is not needed any more", "model", m.graph.Name)
	go func() { // plans may be being saved, which takes its time
		if err := m.close(); err != nil {
			slog.Warn("weir: closing a lost model", "model", m.graph.Name, "error", err)
		}
	}()
}
