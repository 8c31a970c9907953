package source

import (
	"context"
	"fmt"
	"sync"
)

// turns has one at a time change the files of a model, and those of different models side by side:
// one that comes slowly keeps nobody from another.
type turns struct {
	mu      sync.Mutex
	of      map[string]*turn
	rounds  int            // of all models that have begun
	brought map[string]int // in which round a model was brought by its name
}

// turn is that of a model.
type turn struct {
	taken chan struct{} // one while somebody has it
	users int           // who have it or wait
}

// with does something in the turn of a model. The error is that of f, or that of ctx where the turn
// did not come.
func (t *turns) with(ctx context.Context, model string, f func() error) error {
	t.mu.Lock()
	if t.of == nil {
		t.of, t.brought = map[string]*turn{}, map[string]int{}
	}
	x := t.of[model]
	if x == nil {
		x = &turn{taken: make(chan struct{}, 1)}
		t.of[model] = x
	}
	x.users++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if x.users--; x.users == 0 {
			delete(t.of, model)
		}
	}()
	select {
	case x.taken <- struct{}{}:
		defer func() { <-x.taken }()
		return f()
	case <-ctx.Done():
		return fmt.Errorf("model %s is being brought: %w", model, context.Cause(ctx))
	}
}

// round begins one over all models, and returns its number.
func (t *turns) round() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds++
	return t.rounds
}

// note remembers that a model was brought by its name.
func (t *turns) note(model string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brought[model] = t.rounds
}

// since reports whether a model was brought by its name after a round had begun, which then knows
// nothing of it.
func (t *turns) since(model string, round int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, is := t.brought[model]
	return is && n >= round
}
