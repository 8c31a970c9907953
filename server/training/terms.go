package training

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/train"
)

// kept is what was ordered of a training and outlives the server: the file beside its checkpoints.
type kept struct {
	Phase   Phase   `json:"phase,omitempty"` // paused or stopped
	Compute float64 `json:"compute,omitempty"`
	Limit   float64 `json:"limit,omitempty"`
	Memory  int64   `json:"memory_bytes,omitempty"`
}

func (t *training) file() string { return filepath.Join(t.recipe.Checkpoint.To, "server.json") }

// or is a phase in place of none.
func (p Phase) or(other Phase) Phase { return cmp.Or(p, other) }

// hold has a training paused or stopped until it is told to go on.
func (t *training) hold(as Phase) {
	t.mu.Lock()
	t.held = as
	t.mu.Unlock()
	t.keep()
}

// keep writes what was ordered. Where it cannot be written, such as on a full disk, the order holds
// all the same, for as long as the server does.
func (t *training) keep() {
	t.keeping.Lock()
	defer t.keeping.Unlock()
	t.mu.Lock()
	k := kept{t.held, t.terms.Compute, t.terms.Limit, int64(t.terms.Memory)}
	t.mu.Unlock()
	err := os.MkdirAll(filepath.Dir(t.file()), 0o777)
	if err == nil {
		err = wholefile.Write(t.file(), func(w io.Writer) error {
			return json.NewEncoder(w).Encode(k)
		})
	}
	if err != nil {
		t.of.o.Log.Warn("an order is forgotten at the next start", "training", t.state.Name,
			"error", err)
	}
}

// recall reads what was ordered of the training at an earlier server.
func (t *training) recall() {
	b, err := os.ReadFile(t.file())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		t.of.o.Log.Warn("what was ordered of a training cannot be read, and is passed over",
			"training", t.state.Name, "file", t.file(), "error", err)
		return
	}
	if k.Phase == Paused || k.Phase == Stopped {
		t.held = k.Phase
	}
	t.terms = weir.Share{Compute: k.Compute, Limit: k.Limit, Memory: weir.Bytes(k.Memory)}
}

// promise gives the training another part of the device at once: between two updates might be late,
// since a limit may keep it from the next. Without memory it is that of the next attempt, which
// would fail by what no job can have.
func (t *training) promise(change func(*weir.Share)) error {
	if err := t.change(change); err != nil {
		return err
	}
	t.keep()
	return nil
}

func (t *training) change(change func(*weir.Share)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Phase == Done || t.state.Phase == Failed {
		return errEnded
	}
	most := t.terms.Memory
	terms := t.terms
	if t.job != nil {
		terms = t.job.Job().Spec().Share
	}
	change(&terms)
	err := terms.Validate()
	if t.job != nil {
		err = t.job.SetShare(terms)
	}
	if err == nil {
		t.terms = terms
		t.terms.Memory = most
	}
	return err
}

// within caps the memory of a training between two updates; 0 takes a cap away. Below what it needs
// some of what the forward pass leaves is computed again: another plan, for which its memory must
// be taken anew.
func (t *training) within(p *train.Prepared, most weir.Bytes) (anew bool, err error) {
	if err := (weir.Share{Memory: most}).Validate(); err != nil {
		return false, err
	}
	had := p.Bytes()
	if err := p.Within(t.of.stop, int64(most)); err != nil {
		return false, err
	}
	t.mu.Lock()
	t.terms.Memory = most
	t.mu.Unlock()
	t.keep()
	t.set(func(s *State) { s.NeedBytes = p.Bytes() })
	return p.Bytes() != had, nil
}
