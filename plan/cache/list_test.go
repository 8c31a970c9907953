package cache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/zoo"
)

// TestEntries lists what is kept with what it is for, and prunes what was not used for long.
func TestEntries(t *testing.T) {
	c := newCache(t)
	if list, err := c.Entries(host); err != nil || len(list) != 0 {
		t.Errorf("no folder: %v, %v", list, err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	start(t, c, path, plan.Options{Target: host, Shapes: oneImage})
	list, err := c.Entries(host)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(e Entry) bool { return e.Kind == "plan" })
	if i < 0 || len(list) != 2 {
		t.Fatalf("got %+v", list)
	}
	e := list[i]
	if e.Reason != "" || e.Model != path || e.Shapes != "input=1x3x32x32" ||
		e.Precision != "fp32" || !e.Current ||
		e.Bytes < 1000 {
		t.Errorf("got %+v", e)
	}
	if removed, err := c.Prune(time.Hour); err != nil || len(removed) != 0 {
		t.Errorf("what was just used: %v, %v", removed, err)
	}
	if removed, err := c.Prune(30 * time.Second); err != nil || len(removed) != 2 {
		t.Errorf("a minute later: %v, %v", removed, err)
	}
	if left, err := os.ReadDir(c.Dir()); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestReason holds that what keeps a kept plan from being used is told.
func TestReason(t *testing.T) {
	c := newCache(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	o := plan.Options{Target: host, Shapes: oneImage}
	reason := func(c *Cache, o plan.Options) string {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		found := m.Find(t.Context(), o)
		if (found.Plan != nil) != (found.Reason == "") && found.Plan != nil {
			t.Errorf("a plan that was found was not: %s", found.Reason)
		}
		return found.Reason
	}
	if got := reason(c, o); got != "" {
		t.Errorf("of a model that was never started: %q", got)
	}
	start(t, c, path, o)
	if got := reason(c, o); got != "" {
		t.Errorf("of what is kept: %q", got)
	}
	other := o
	other.Shapes = map[string][]int{"input": {2, 3, 32, 32}}
	half := o
	half.Passes = pass.Options{Precision: "bf16"}
	built := *c
	built.build = "another"
	for _, x := range []struct {
		cache   *Cache
		options plan.Options
		want    string
	}{
		{c, other, "it is for shapes input=1x3x32x32"},
		{c, half, "it is for precision fp32"},
		{&built, o, "it is of another build of weir"},
	} {
		if got := reason(x.cache, x.options); got != x.want {
			t.Errorf("got %q, want %q", got, x.want)
		}
	}
	smallModel(t, path, 2)
	if got := reason(c, o); !strings.Contains(got, "has changed") {
		t.Errorf("of a model that was replaced: %q", got)
	}
	now := *c
	now.now = time.Now
	if got := reason(&now, o); got != "the model's file has only just been written" {
		t.Errorf("of a model that was replaced a moment ago: %q", got)
	}
}

// reasonOf is why no kept plan of a model is used.
func reasonOf(t *testing.T, c *Cache, path string, o plan.Options) string {
	t.Helper()
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return m.Find(t.Context(), o).Reason
}

// TestReasonIsTheNearest holds that of several plans that are kept of a model that one is told of
// which differs least, and all in which it differs; and of plans of other models nothing.
func TestReasonIsTheNearest(t *testing.T) {
	c := newCache(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	one := plan.Options{Target: host, Shapes: oneImage}
	two := plan.Options{Target: host, Shapes: map[string][]int{"input": {2, 3, 32, 32}},
		Passes: pass.Options{Precision: "bf16"}}
	start(t, c, path, one)
	start(t, c, path, two)
	for _, o := range []plan.Options{one, two} {
		o.Passes.Portable = true
		if got := reasonOf(t, c, path, o); got != "it is of other passes" {
			t.Errorf("beside the plan for %v: %q", o.Shapes, got)
		}
	}
	other := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, other, 2)
	if got := reasonOf(t, c, other, one); got != "" {
		t.Errorf("of another model: %q", got)
	}
	larger(t, path)
	one.Shapes = map[string][]int{"input": {3, 3, 32, 32}}
	if got := reasonOf(t, c, path, one); got != "it is for shapes input=1x3x32x32, "+changedSince {
		t.Errorf("of a larger model, for other shapes: %q", got)
	}
}

// larger writes a model with more weights than [smallModel] has.
func larger(t *testing.T, path string) {
	t.Helper()
	zooModel(t, path, "resnet50",
		zoo.Options{Seed: 1, Layers: 1, Width: 0.125, Resolution: 32, Classes: 11})
}

// TestReasonOfFiles holds that an entry that is damaged, and one that others can write, are told
// of.
func TestReasonOfFiles(t *testing.T) {
	c := newCache(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	o := plan.Options{Target: host, Shapes: oneImage}
	start(t, c, path, o)
	name := c.only(t, planSuffix)
	chmod(t, name, 0o602)
	if got := reasonOf(t, c, path, o); got != "another user could have written its file" {
		t.Errorf("of a file that others can write: %q", got)
	}
	start(t, c, path, o)
	whole := read(t, name)
	write(t, name, whole[:len(whole)-1])
	if got := reasonOf(t, c, path, o); !strings.HasPrefix(got, "its file was damaged") {
		t.Errorf("of a file that was cut short: %q", got)
	}
}

// TestEntriesKnowOldModels holds what a list says of plans of a model that was replaced since, by
// one of another size and by the one that it was before.
func TestEntriesKnowOldModels(t *testing.T) {
	c := newCache(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	o := plan.Options{Target: host, Shapes: oneImage}
	start(t, c, path, o)
	entry := filepath.Base(c.only(t, planSuffix))
	reason := func() string {
		t.Helper()
		list, err := c.Entries(host)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(e Entry) bool { return e.File == entry })
		if i < 0 {
			t.Fatalf("got %+v", list)
		}
		return list[i].Reason
	}
	larger(t, path)
	if got := reason(); got != changedSince {
		t.Errorf("of a larger model that was not started yet: %q", got)
	}
	smallModel(t, path, 2)
	start(t, c, path, o)
	if got := reason(); got != changedSince {
		t.Errorf("of another model, which was started: %q", got)
	}
	smallModel(t, path, 1)
	if got := reason(); got != "" {
		t.Errorf("of the model as it was: %q", got)
	}
}

// TestEntriesByUse holds that what was used last is listed first, and that measured choices stay
// when all else is removed.
func TestEntriesByUse(t *testing.T) {
	c := newCache(t)
	now := time.Now().Truncate(time.Hour)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	if err := c.KeepChoices(host, someChoices); err != nil {
		t.Fatal(err)
	}
	start(t, c, path, plan.Options{Target: host, Shapes: oneImage})
	choices := c.only(t, choicesSuffix)
	c.now = func() time.Time { return now }
	last := []string{c.only(t, recordSuffix), c.only(t, planSuffix), choices}
	for range last {
		for i, name := range last {
			used := now.Add(-time.Duration(i) * time.Hour)
			err := os.Chtimes(name, used, used)
			if strings.HasSuffix(name, planSuffix) {
				receipt := filepath.Join(c.Dir(), receiptOf(filepath.Base(name)))
				err = errors.Join(err, os.Chtimes(receipt, used, used))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		list, err := c.Entries(host)
		if err != nil || len(list) != len(last) {
			t.Fatalf("%+v, %v", list, err)
		}
		for i, e := range list {
			if e.File != filepath.Base(last[i]) {
				t.Errorf("%d hours ago %s was used, listed is %s", i, last[i], e.File)
			}
		}
		last = append(last[1:], last[0])
	}
	removed, err := c.Prune(2 * time.Hour)
	if err != nil || len(removed) != 1 {
		t.Errorf("of what was not used for two hours are removed %+v, %v", removed, err)
	}
	if removed, err = c.Prune(0); err != nil || len(removed) != 1 {
		t.Errorf("of the rest are removed %+v, %v", removed, err)
	}
	if got := c.only(t, choicesSuffix); got != choices {
		t.Errorf("left is %s", got)
	}
}

// TestEntriesSayWhyNot holds that a list says of each plan that no start uses why.
func TestEntriesSayWhyNot(t *testing.T) {
	c := newCache(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	start(t, c, path, plan.Options{Target: host, Shapes: oneImage})
	reason := func(c *Cache, on compute.Target) string {
		t.Helper()
		list, err := c.Entries(on)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(e Entry) bool { return e.Kind == "plan" })
		if i < 0 {
			t.Fatalf("got %+v", list)
		}
		return list[i].Reason
	}
	if got := reason(c, host); got != "" {
		t.Errorf("of what the next start uses: %q", got)
	}
	built := *c
	built.build = "another"
	if got := reason(&built, host); got != "it is of another build of weir" {
		t.Errorf("of another build's: %q", got)
	}
	if got := reason(c, elsewhere{host}); got != "it is for a processor without quantum" {
		t.Errorf("of a lesser processor's: %q", got)
	}
	smallModel(t, path, 2)
	start(t, c, path, plan.Options{Target: host, Shapes: oneImage})
	list, err := c.Entries(host)
	if err != nil {
		t.Fatal(err)
	}
	var why []string
	for _, e := range list {
		if e.Kind == "plan" {
			why = append(why, e.Reason)
		}
	}
	slices.Sort(why)
	if !slices.Equal(why, []string{"", "the model's file has changed since"}) {
		t.Errorf("of a model that was replaced: %q", why)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := reason(c, host); got != "the model's file is gone" {
		t.Errorf("of a model that is gone: %q", got)
	}
}

// elsewhere is a target on a processor that can more.
type elsewhere struct{ compute.Target }

func (e elsewhere) Identity() string {
	return strings.TrimSuffix(e.Target.Identity(), "]") + ` "quantum"]`
}

func TestOtherTarget(t *testing.T) {
	for _, x := range []struct{ have, this, want string }{
		{`cpu linux amd64 avx2 ["a"]`, `cpu linux amd64 avx512 ["a" "b"]`,
			"it is for cpu linux amd64 avx2, this is cpu linux amd64 avx512"},
		{`cpu x ["a" "b"]`, `cpu x ["b" "c"]`, "it is for a processor with a and without c"},
		{`far`, `far, plain evaluation`, "it is for far, this is far, plain evaluation"},
		{`cpu x ["b" "a"]`, `cpu x ["a" "b"]`, "it is for another device"},
	} {
		if got := otherTarget(x.have, x.this); got != x.want {
			t.Errorf("%s here %s: %q, want %q", x.have, x.this, got, x.want)
		}
	}
}
