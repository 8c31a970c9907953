package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/server/store"
)

// Mirror is a folder of models that is kept as other places are: NAME/VERSION/model.onnx, as
// package repo reads it. What a place no longer has leaves the folder too.
type Mirror struct {
	folder string
	from   []Remote
	o      Options
	held   io.Closer
	turns  turns
}

// Options are those of a [Mirror].
type Options struct {
	Log *slog.Logger // nil for none
	// Progress, if it is not nil, is told of each file how much of it has come.
	Progress func(what string, done, all int64)
}

// record says where a model's files are from, in the model's folder.
type record struct {
	From  string            `json:"from"`
	Files map[string]string `json:"files"` // marks, by path
}

const (
	recordName = ".origin.json"
	newPrefix  = ".new-"
	oldPrefix  = ".old-"
	lockName   = ".lock"
)

// Open takes a folder, which is made where there is none, until the mirror is closed. Nothing is
// brought yet. The error is of kind [ErrTaken] where another process has it.
func Open(folder string, from []Remote, o Options) (*Mirror, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	held, err := filelock.Take(filepath.Join(folder, lockName), false)
	if errors.Is(err, filelock.ErrTaken) {
		err = ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("models in %s: %w", folder, err)
	}
	m := &Mirror{folder: folder, from: from, o: o, held: held}
	if err := m.mend(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return m, nil
}

// Close gives the folder to others.
func (m *Mirror) Close() error { return m.held.Close() }

// mend takes away what was being brought when a process ended, and has a model back that was just
// being replaced.
func (m *Mirror) mend() error {
	list, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		path := filepath.Join(m.folder, e.Name())
		if name, ok := strings.CutPrefix(e.Name(), oldPrefix); ok {
			if err := os.Rename(path, filepath.Join(m.folder, name)); err == nil {
				continue // the new one was not in its place yet
			}
			errs = append(errs, os.RemoveAll(path))
		}
		if strings.HasPrefix(e.Name(), newPrefix) {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// Bring makes a model what its place has now; "" stands for all models, of which the folder then
// has no others. The error is of kind fs.ErrNotExist where no place has the model. Whatever fails,
// a model that was brought before stays as it was; and where all are asked for and a place does not
// answer, its models do, with a word in the log, if there are any. The error is of kind [ErrSome]
// where some do not come that never did, of which the others notice nothing. It ends with ctx, also
// while somebody else brings the model.
func (m *Mirror) Bring(ctx context.Context, model string) error {
	if model != "" {
		return m.one(ctx, model)
	}
	round := m.turns.round()
	owner := map[string]Remote{}
	whole := true
	var some []error
	for _, r := range m.from {
		names, err := m.names(ctx, r)
		if err != nil {
			whole = false
			if err := m.instead(r, owner, err); err != nil {
				return err
			}
			continue
		}
		for _, name := range names {
			if err := m.own(owner, name, r); err != nil {
				return err
			}
			err := m.turns.with(ctx, name, func() error { return m.bring(ctx, r, name) })
			if err != nil {
				switch {
				case ctx.Err() != nil:
					return fmt.Errorf("model %s: %w", name, err)
				case !m.has(name):
					some = append(some, fmt.Errorf("model %s: %w", name, err))
					continue
				}
				m.o.Log.Warn("a model stays as it was brought before", "model", name, "why", err)
			}
		}
	}
	if whole { // else models whose place did not answer are not known
		if err := m.drop(ctx, owner, round); err != nil {
			return err
		}
	}
	if len(some) > 0 {
		return fmt.Errorf("%w: %w", ErrSome, errors.Join(some...))
	}
	return nil
}

// patience is for all that a place says of the models that it has, or of one.
const patience = 10 * time.Minute

func (m *Mirror) names(ctx context.Context, r Remote) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Names(ctx)
}

func (m *Mirror) files(ctx context.Context, r Remote, model string) ([]File, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Files(ctx, model)
}

// own notes that a place has a model, which no other may have too.
func (m *Mirror) own(owner map[string]Remote, name string, r Remote) error {
	if other := owner[name]; other != nil && other != r {
		return fmt.Errorf("%w: model %s is in %s and in %s: a server has one model of a name",
			ErrLayout, name, other, r)
	}
	owner[name] = r
	return repo.CheckName(name)
}

// instead has the models of a place that does not answer stay.
func (m *Mirror) instead(r Remote, owner map[string]Remote, why error) error {
	list, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	kept := 0
	for _, e := range list {
		if e.Name()[0] != '.' && m.recorded(e.Name()).From == r.String() {
			kept++
			if err := m.own(owner, e.Name(), r); err != nil {
				return err
			}
		}
	}
	if kept == 0 {
		return why
	}
	m.o.Log.Warn("models are served as they were brought before", "models", kept, "why", why)
	return nil
}

// one brings a model from the place that has it.
func (m *Mirror) one(ctx context.Context, model string) error {
	if err := repo.CheckName(model); err != nil {
		return err
	}
	owner := map[string]Remote{}
	var unknown error // of places that do not say what they have
	for _, r := range m.from {
		names, err := m.names(ctx, r)
		if err != nil {
			unknown = errors.Join(unknown, err)
		} else if slices.Contains(names, model) {
			if err := m.own(owner, model, r); err != nil {
				return err
			}
		}
	}
	if owner[model] == nil && unknown != nil {
		return unknown
	}
	return m.turns.with(ctx, model, func() error {
		if owner[model] == nil {
			return errors.Join(fmt.Errorf("model %s: %w", model, fs.ErrNotExist), m.remove(model))
		}
		m.turns.note(model)
		return m.bring(ctx, owner[model], model)
	})
}

// bring brings a model's files, whole or not at all.
func (m *Mirror) bring(ctx context.Context, r Remote, model string) error {
	files, err := m.files(ctx, r, model)
	if err != nil {
		return err
	}
	next := record{From: r.String(), Files: map[string]string{}}
	for _, f := range files {
		if !local(f.Path) {
			return fmt.Errorf("%s: %w: %.200q is no path in a model's folder", r, ErrLayout, f.Path)
		}
		next.Files[f.Path] = f.Mark
	}
	now := m.recorded(model)
	if now.From != next.From {
		now.Files = nil // marks of two places say nothing of each other
	}
	kept := func(f *File) bool { return now.Files[f.Path] == f.Mark && m.whole(model, f) }
	if len(now.Files) == len(next.Files) && all(files, kept) {
		return nil
	}
	need := int64(0)
	for i := range files {
		if !kept(&files[i]) {
			need = min(need+max(files[i].Size, 0), math.MaxInt64/2) // of sizes that are said
		}
	}
	if err := store.Fits(m.folder, need, store.Reserve); err != nil {
		return err
	}
	fresh := newPrefix + model
	path := filepath.Join(m.folder, fresh)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	defer os.RemoveAll(path) // which is not there any more where all went well
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	for i := range files {
		if kept(&files[i]) && m.keep(root, path, model, files[i].Path) == nil {
			continue
		}
		if err := m.fetch(ctx, root, r, &files[i]); err != nil {
			return err
		}
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = root.WriteFile(recordName, text, 0o600)
	}
	if err == nil {
		err = m.swap(model)
	}
	if err == nil {
		m.o.Log.Info("model brought", "model", model, "from", r.String(), "files", len(files))
	}
	return err
}

// keep takes a file over that is as it was: the same file, by another name.
func (m *Mirror) keep(root *os.Root, fresh, model, path string) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.Link(filepath.Join(m.folder, model, path), filepath.Join(fresh, path))
}

// fetch brings a file.
func (m *Mirror) fetch(ctx context.Context, root *os.Root, r Remote, f *File) error {
	if err := root.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	from, err := r.Open(ctx, f)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, &told{from, m.o.Progress, f, 0})
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// told tells how much has come.
type told struct {
	io.Reader
	to   func(what string, done, all int64)
	of   *File
	done int64
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.done += int64(n)
	if t.to != nil {
		t.to(t.of.Path, t.done, t.of.Size)
	}
	return n, err
}

// swap puts a model that was brought in the place of the one that is there, in one step: whoever
// looks, or opens it again, finds one or the other. Where the file system does not exchange, there
// is none for a moment, and [Mirror.mend] has the old one back if the process ends then.
func (m *Mirror) swap(model string) error {
	at := func(prefix string) string { return filepath.Join(m.folder, prefix+model) }
	if exchange(at(newPrefix), at("")) == nil {
		return os.RemoveAll(at(newPrefix))
	}
	if err := os.RemoveAll(at(oldPrefix)); err != nil {
		return err
	}
	if err := os.Rename(at(""), at(oldPrefix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(at(newPrefix), at("")); err != nil {
		return errors.Join(err, os.Rename(at(oldPrefix), at("")))
	}
	return os.RemoveAll(at(oldPrefix))
}

// remove takes a model away.
func (m *Mirror) remove(model string) error {
	err := os.Rename(filepath.Join(m.folder, model), filepath.Join(m.folder, newPrefix+model))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(m.folder, newPrefix+model)))
}

// drop takes the models away that no place had when a round began.
func (m *Mirror) drop(ctx context.Context, owner map[string]Remote, round int) error {
	list, err := os.ReadDir(m.folder)
	errs := []error{err}
	for _, e := range list {
		if e.Name()[0] == '.' || owner[e.Name()] != nil {
			continue
		}
		errs = append(errs, m.turns.with(ctx, e.Name(), func() error {
			if m.turns.since(e.Name(), round) {
				return nil
			}
			return m.remove(e.Name())
		}))
	}
	return errors.Join(errs...)
}

// has reports whether a model was brought.
func (m *Mirror) has(model string) bool { return m.recorded(model).From != "" }

// recorded is what is known of a model that was brought; nothing, of another.
func (m *Mirror) recorded(model string) (r record) {
	text, err := os.ReadFile(filepath.Join(m.folder, model, recordName))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return record{}
	}
	return r
}

// whole reports whether a file that was brought is there, as long as it was: a machine that lost
// its power may have the record of a file and not the file.
func (m *Mirror) whole(model string, f *File) bool {
	info, err := os.Lstat(filepath.Join(m.folder, model, filepath.FromSlash(f.Path)))
	return err == nil && f.Mark != "" && info.Mode().IsRegular() && info.Size() == f.Size
}

func all(files []File, ok func(*File) bool) bool {
	for i := range files {
		if !ok(&files[i]) {
			return false
		}
	}
	return true
}
