package cache

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/sorting"
)

// Entry is what a cache holds: a plan with its packed weights, or a smaller file beside them.
type Entry struct {
	File string `json:"file"` // its name in the folder
	Kind string `json:"kind"` // plan, model (a record of one) or ways (measured choices)
	// Model is the path of the plan's model, "" where it is not known; Precision and Shapes are
	// what the plan is for, and Current says that this build of weir made it.
	Model     string `json:"model,omitempty"`
	Precision string `json:"precision,omitempty"`
	Shapes    string `json:"shapes,omitempty"`
	Current   bool   `json:"current"`
	// Reason says why no start of this build on the device asked about uses the plan, "" where one
	// for the same precision and shapes does.
	Reason string    `json:"reason,omitempty"`
	Bytes  int64     `json:"bytes"`
	Used   time.Time `json:"used"` // for the last time, to the hour
}

// Dir returns the folder.
func (c *Cache) Dir() string { return c.dir }

// MaxBytes returns the bound on the size of all entries together.
func (c *Cache) MaxBytes() int64 { return c.max }

// Entries lists what the cache holds, that unused for longest last, with the reasons why plans do
// not serve on a device; nil stands for any. It fails where the folder is refused. One that is not
// there holds nothing.
func (c *Cache) Entries(on compute.Target) ([]Entry, error) {
	root, err := c.folder()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list := []Entry{}
	for _, f := range c.stored(root) {
		stem, kind, _ := strings.Cut(f.name, ".")
		e := Entry{File: f.name, Kind: kind, Bytes: f.size, Used: f.used}
		if kind == strings.TrimPrefix(planSuffix, ".") {
			n := c.noteOf(stem + planSuffix)
			e.Model, e.Precision, e.Shapes = n.Model, n.Precision, n.Shapes
			e.Current = n.Build == c.build
			e.Reason = c.useless(f.name, n, on)
		}
		list = append(list, e)
	}
	sorting.By(list, func(a, b Entry) int {
		return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.File, b.File))
	})
	return list, nil
}

// Prune removes what was not used for so long, but for measured choices, and returns it. Programs
// that have a plan mapped keep it. It fails as [Cache.Entries], and where a file cannot be removed.
func (c *Cache) Prune(unused time.Duration) ([]Entry, error) {
	list, err := c.Entries(nil)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	root, err := c.folder()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	removed := []Entry{}
	for _, e := range list {
		if c.now().Sub(e.Used) < unused || strings.HasSuffix(e.File, choicesSuffix) {
			continue
		}
		if err := removeIn(root, e.File); err != nil {
			return removed, err
		}
		if strings.HasSuffix(e.File, planSuffix) {
			if err := removeIn(root, receiptOf(e.File)); err != nil {
				return removed, err
			}
		}
		removed = append(removed, e)
	}
	return removed, nil
}

// removeIn removes a file that may be gone.
func removeIn(root *os.Root, name string) error {
	if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// note is what a compiled plan's entry is for.
func (c *Compiled) note() note {
	o := c.Options
	n := note{Model: c.model.path, Build: c.model.cache.build, Target: o.Target.Identity(),
		Precision: cmp.Or(fmt.Sprint(o.Passes.Precision), "fp32"),
		Passes:    fmt.Sprint(o.Passes.Portable, o.Passes.Off)}
	for _, f := range c.model.files {
		n.Sizes += fmt.Sprint(f.Size, " ")
	}
	var shapes []string
	for _, name := range slices.Sorted(maps.Keys(o.Shapes)) {
		sizes := strings.Trim(fmt.Sprint(o.Shapes[name]), "[]")
		shapes = append(shapes, name+"="+strings.ReplaceAll(sizes, " ", "x"))
	}
	n.Shapes = strings.Join(shapes, " ")
	return n
}

// noteOf reads the note of an entry; what cannot be read says nothing.
func (c *Cache) noteOf(entry string) note {
	body, err := c.readSealed(receiptOf(entry), receiptMagic, maxReceipt)
	var r receipt
	if err != nil || json.Unmarshal(body, &r) != nil {
		return note{}
	}
	return r.Note
}

// unused says why no kept plan of the model is used: what is wrong with the entry of the very
// setting, or in what the most similar one differs.
func (c *Compiled) unused(found error) string {
	cache := c.model.cache
	switch {
	case errors.Is(found, errDamaged):
		return "its file was damaged, or measured choices have changed since"
	case errors.Is(found, errSettling):
		return errSettling.Error()
	case errors.Is(found, errUntrusted):
		return "another user could have written its file"
	}
	root, err := cache.folder()
	if err != nil {
		return ""
	}
	defer root.Close()
	return strings.Join(cache.nearest(root, c.note()), ", ")
}

// nearest says in what the plan of the same model that differs least does.
func (c *Cache) nearest(root *os.Root, want note) (least []string) {
	for _, name := range plans(root) {
		have := c.noteOf(name)
		if have.Model != want.Model {
			continue
		}
		if d := want.differences(have); least == nil || len(d) < len(least) {
			least = d
		}
	}
	return least
}

// useless says why no start of this build on a device uses an entry, "" where one may.
func (c *Cache) useless(entry string, n note, on compute.Target) string {
	var why []string
	if n.Model == "" {
		return "what it is for cannot be read"
	}
	if n.Build != c.build {
		why = append(why, otherBuild)
	}
	if on != nil && n.Target != on.Identity() {
		why = append(why, otherTarget(n.Target, on.Identity()))
	}
	if w := c.modelSince(entry, n); w != "" {
		why = append(why, w)
	}
	return strings.Join(why, ", ")
}

// modelSince says what became of the model of an entry since: "" where it is as it was, as far as
// its record tells, which spares reading it.
func (c *Cache) modelSince(entry string, n note) string {
	f, id, err := identify(n.Model)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "the model's file is gone"
		}
		return "the model's file cannot be read"
	}
	f.Close()
	if first, _, _ := strings.Cut(n.Sizes, " "); first != fmt.Sprint(id.Size) {
		return changedSince
	}
	body, err := c.readSealed(c.recordFile(n.Model), recordMagic, maxRecord)
	if err != nil {
		return ""
	}
	r, _, err := decodeRecord(body)
	if err == nil && r.Files[0] == id && !strings.Contains(entry, r.Content.String()) {
		return changedSince
	}
	return ""
}

// The reasons that both a list and a start may give.
const (
	otherBuild   = "it is of another build of weir"
	changedSince = "the model's file has changed since"
)

// otherTarget says in what the device that a plan is for differs from this one. Identities are
// words, and the features of the processor in the form of %q.
func otherTarget(have, this string) string {
	device, features, _ := strings.Cut(have, " [")
	here, own, _ := strings.Cut(this, " [")
	if device != here {
		return fmt.Sprintf("it is for %s, this is %s", device, here)
	}
	var d []string
	if with := featuresBeside(features, own); len(with) > 0 {
		d = append(d, "with "+strings.Join(with, " "))
	}
	if without := featuresBeside(own, features); len(without) > 0 {
		d = append(d, "without "+strings.Join(without, " "))
	}
	if len(d) == 0 {
		return "it is for another device"
	}
	return "it is for a processor " + strings.Join(d, " and ")
}

// featuresBeside are the features that are in one list and not in another.
func featuresBeside(list, other string) (only []string) {
	for _, w := range strings.Fields(strings.Trim(list, "[]")) {
		if !slices.Contains(strings.Fields(strings.Trim(other, "[]")), w) {
			only = append(only, strings.Trim(w, `"`))
		}
	}
	return only
}

// plans lists the names of the entries in a folder.
func plans(root *os.Root) []string {
	var names []string
	list, _ := fs.ReadDir(root.FS(), ".")
	for _, d := range list {
		if own(d) && strings.HasSuffix(d.Name(), planSuffix) {
			names = append(names, d.Name())
		}
	}
	return names
}

// differences says what keeps an entry from serving: at least that the model has changed, whose
// content a note does not have.
func (n note) differences(have note) []string {
	var d []string
	if have.Build != n.Build {
		d = append(d, otherBuild)
	}
	if have.Target != n.Target {
		d = append(d, otherTarget(have.Target, n.Target))
	}
	if have.Precision != n.Precision {
		d = append(d, "it is for precision "+have.Precision)
	}
	if have.Shapes != n.Shapes {
		d = append(d, "it is for shapes "+have.Shapes)
	}
	if have.Passes != n.Passes {
		d = append(d, "it is of other passes")
	}
	if len(d) == 0 || have.Sizes != n.Sizes {
		d = append(d, changedSince)
	}
	return d
}
