package cache

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/plan"
)

// Compiled is a plan, and its packed weights when it comes from the cache.
type Compiled struct {
	Plan *plan.Plan
	// Weights are the packed weights, to be loaded with engine.Options.Weights: a view of the
	// mapped entry, read-only and valid until the model is closed. They are nil for a plan that was
	// made now.
	Weights []byte
	// Options are the options that the plan is made with: those that the caller gave, with the
	// measured choices that the cache has.
	Options plan.Options
	// Reason says why a plan that was kept of this model was not used, "" where one was, or where
	// none was kept.
	Reason string

	model     *Model
	file      *mapping // of which Weights are a part
	setting   key
	cacheable bool // whether it may be in the cache, now or later
}

// Compile returns the plan for the options from the cache, or makes it of Source. Errors are those
// of plan.Compile and of Source.
func (m *Model) Compile(ctx context.Context, o plan.Options) (*Compiled, error) {
	c := m.Find(ctx, o)
	if c.Plan != nil {
		return c, nil
	}
	src, err := m.Source()
	if err != nil {
		return nil, err
	}
	c.Plan, err = plan.Compile(ctx, src.Graph, c.Options)
	return c, err
}

// Find is Compile for callers that make a missing plan in another way: it leaves Plan nil when the
// cache does not have the plan, or when the context was done first. The caller then makes the plan
// with the Options of what Find returned, and Save keeps it.
func (m *Model) Find(ctx context.Context, o plan.Options) *Compiled {
	if o.Choices == nil {
		o.Choices = m.cache.Choices(o.Target)
	}
	restoreRates(o)
	c := &Compiled{model: m, Options: o}
	if m.cache == nil || !keeps(o) {
		return c
	}
	c.setting, c.cacheable = m.cache.settingKey(m.files, o), true
	if !m.cache.hasSetting(c.setting) { // which spares reading the model for its hash
		m.cache.log.Debug("plan cache: no entry", "model", m.path)
		c.Reason = c.unused(nil)
		return c
	}
	switch err := c.find(ctx, o); {
	case errors.Is(err, errOtherTarget):
		return m.Find(ctx, o)
	case err != nil:
		c.Plan, c.Weights = nil, nil
		c.Reason = c.unused(err)
		m.cache.log.Debug("plan cache: not found", "model", m.path, "error", err)
	}
	return c
}

// errOtherTarget is the kind of error of an entry for what the target was until its kernels wanted
// instructions that the system refused: weights may be packed for those. It serves processes that
// are not refused them.
var errOtherTarget = errors.New("the system refuses instructions that the plan was made for")

// Within is a plan like that of c for which one session needs at most so many bytes, from the cache
// or made now, where there is one; else c, which whoever loads it refuses with what it needs.
func (c *Compiled) Within(ctx context.Context, most int64) *Compiled {
	o := c.Options
	if !c.Plan.Smaller(&o, most) {
		return c
	}
	smaller, err := c.model.Compile(ctx, o)
	if err != nil {
		return c
	}
	return smaller
}

// find loads the entry of the model's content. It removes an entry that is of no use, but not one
// whose loading ended because the context was done.
func (c *Compiled) find(ctx context.Context, o plan.Options) error {
	content, err := c.model.identity()
	if err != nil {
		return err
	}
	cache, name := c.model.cache, planFile(c.setting, content)
	file, id, err := cache.mapEntry(name)
	if err != nil {
		cache.refuse(name, err)
		return err
	}
	e, err := c.load(ctx, name, file, id, content, o)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errOtherTarget) {
			cache.refuse(name, err)
		}
		return errors.Join(err, file.close())
	}
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	if err := c.model.hold(file); err != nil {
		return err
	}
	c.Weights, c.file = e.weights, file
	if err := c.model.note(); err != nil {
		cache.log.Debug("plan cache: model not noted", "model", c.model.path, "error", err)
	}
	cache.log.Debug("plan cache: found", "model", c.model.path, "file", name)
	return nil
}

// mapEntry maps the file of an entry. Nobody else can have written the file, and its bytes do not
// change while it is mapped.
func (c *Cache) mapEntry(name string) (*mapping, fileID, error) {
	root, err := c.folder()
	if err != nil {
		return nil, fileID{}, err
	}
	defer root.Close()
	f, err := c.openTrusted(root, name)
	if err != nil {
		return nil, fileID{}, err
	}
	return c.mapFile(f)
}

// load checks an entry and makes its plan, while the checksums of constants and weights are still
// being compared: what is made of damaged ones is thrown away.
func (c *Compiled) load(ctx context.Context, name string, file *mapping, id fileID, content key,
	o plan.Options) (*entry, error) {
	e, err := fault.Value(func() (*entry, error) { return parse(file.data) })
	if err != nil {
		return nil, err
	}
	if e.key != keyFor(c.setting, content) {
		return nil, fmt.Errorf("%w: it is that of another plan", errDamaged)
	}
	given := receipt{Root: e.digest, File: id, Note: c.note()}
	known := c.model.cache.hasReceipt(name, given)
	sums := check{entry: e, known: known, checked: e.discarded(file)}
	sums.begin(o.Threads - 1)
	c.Plan, err = e.restore(ctx, o)
	err = errors.Join(sums.end(), err)
	if c.setting != c.model.cache.settingKey(c.model.files, o) {
		return nil, errOtherTarget
	}
	if err == nil && !known {
		if err := c.model.cache.giveReceipt(name, given); err != nil {
			c.model.cache.log.Debug("plan cache: no receipt", "file", name, "error", err)
		}
	}
	return e, err
}

// keyFor is the key that the entry of a content has in a setting.
func keyFor(setting, content key) key { return keyOf(setting.String(), content.String()) }

// largeTables is the size of an entry's constants, all together, from which they are let out of
// memory once their checksums are compared. So many bytes that steps read in place are mostly
// embeddings, of which few rows are needed at a time.
const largeTables = 4 << 20

// discarded is what verify does to chunks of constants that it has checked.
func (e *entry) discarded(file *mapping) func(chunk []byte) {
	if len(e.constants) < largeTables {
		return nil
	}
	return file.discard
}

// Discard lets the bytes of Weights from one offset to before another leave memory, in whole pages,
// until they are read again: it is what engine.Options.Discard asks for. Where Weights are no
// mapped file but a copy, since others could write the file, they stay.
func (c *Compiled) Discard(from, to int64) {
	if c.file != nil { // which ends with the weights
		c.file.discardEnd(int64(len(c.Weights))-from, int64(len(c.Weights))-to)
	}
}

// Cached reports whether the plan comes from the cache.
func (c *Compiled) Cached() bool { return c.Weights != nil }

// Fresh reports whether the plan was made now and is one that Save keeps.
func (c *Compiled) Fresh() bool { return c.cacheable && !c.Cached() }

// Identity tells the plan from all others, by the content of the model and the options: two of one
// identity pack the same weights. "" where plans of the model are not kept, or its content cannot
// be read. Of a model whose plans were not kept yet it is read whole.
func (c *Compiled) Identity() string {
	if !c.cacheable {
		return ""
	}
	content, err := c.model.identity()
	if err != nil {
		return ""
	}
	return keyFor(c.settled(), content).String()
}

// settled is the setting once the plan's kernels have been made, the first of which may have
// changed the target's identity.
func (c *Compiled) settled() key { return c.model.cache.settingKey(c.model.files, c.Options) }

// Save keeps a plan that Compile made anew, with the packed weights that were made of it
// (engine.Session.WithWeights). It does nothing for a plan that was found in the cache. An error
// means that the plan was not kept. Callers other than tests may ignore it: it is in the log.
func (c *Compiled) Save(weights []byte) error {
	if !c.Fresh() {
		return nil
	}
	err := fault.Do(func() error { return c.save(weights) })
	if err != nil {
		c.model.cache.logUnsaved(c.model.path, err)
	}
	return err
}

func (c *Compiled) save(weights []byte) error {
	m, cache := c.model, c.model.cache
	c.setting = c.settled()
	if err := m.settled(); err != nil {
		return err
	}
	d, err := c.draft(weights)
	if err != nil {
		return err
	}
	// The model's content, whose hash takes as long as writing the entry, is known while that is
	// done.
	hashed := make(chan error, 1)
	go func() {
		_, err := m.identity()
		hashed <- err
	}()
	var name string
	id, err := cache.writeNamed(d.sections().size, func(f *os.File) (string, error) {
		err := unwritable(d.writeSections(f))
		if err := errors.Join(err, <-hashed); err != nil {
			return "", err
		}
		name, err = c.writeHead(d, f)
		return name, err
	})
	if err != nil {
		return err
	}
	err = cache.giveReceipt(name, receipt{Root: d.digest, File: id, Note: c.note()})
	m.mu.Lock()
	defer m.mu.Unlock()
	err = errors.Join(err, m.note())
	cache.trim()
	return errors.Join(err, cache.keepRates(c.Options))
}

// draft is the entry before the content of the model is known. It must fit in the cache.
func (c *Compiled) draft(weights []byte) (*draft, error) {
	if int64(len(weights)) != c.Plan.PackedBytes {
		return nil, fmt.Errorf("%d bytes of weights, the plan has %d", len(weights),
			c.Plan.PackedBytes)
	}
	d, err := newDraft(c.Plan, weights)
	if err != nil {
		return nil, err
	}
	if size, most := d.sections().size, c.model.cache.max; size > most {
		return nil, fmt.Errorf("the entry has %d bytes, the cache %d", size, most)
	}
	return d, nil
}

// writeHead writes the head of an entry, which names the content of the model, and returns the
// file's name.
func (c *Compiled) writeHead(d *draft, f *os.File) (name string, err error) {
	m := c.model
	m.mu.Lock()
	defer m.mu.Unlock()
	d.key, name = keyFor(c.setting, m.content), planFile(c.setting, m.content)
	return name, errors.Join(m.unchanged(), unwritable(d.writeHead(f)))
}
