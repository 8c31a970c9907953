package cache

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/plan"
)

var someChoices = compute.Choices{"conv f32 1x4x9x9 m8 k3x3": "pixels",
	"conv f32 1x4x9x9 m8 k1x1 bias": "product"}

// TestChoices keeps choices and looks for them under other circumstances.
func TestChoices(t *testing.T) {
	c := newCache(t)
	if got := c.Choices(host); got != nil {
		t.Errorf("an empty cache has %v", got)
	}
	if err := c.KeepChoices(host, someChoices); err != nil {
		t.Fatal(err)
	}
	if got := c.Choices(host); !maps.Equal(got, someChoices) {
		t.Errorf("kept %v, found %v", someChoices, got)
	}
	more := compute.Choices{"conv f32 1x4x9x9 m8 k3x3": "winograd", "other": "product"}
	if err := c.KeepChoices(host, more); err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(someChoices)
	maps.Copy(all, more)
	if got := c.Choices(host); !maps.Equal(got, all) {
		t.Errorf("found %v, want %v", got, all)
	}
	for name, change := range map[string]func(c *Cache){
		"version":   func(c *Cache) { c.release = "version v9.9.9" },
		"processor": func(c *Cache) { c.processor = func() string { return "another" } },
		"folder":    func(c *Cache) { c.dir += "2" },
	} {
		other := *c
		change(&other)
		if got := other.Choices(host); got != nil {
			t.Errorf("another %s: found %v", name, got)
		}
	}
	away := compute.WithFeatures(host, compute.Features{Remote: true})
	if got := c.Choices(away); got != nil {
		t.Errorf("for another device: found %v", got)
	}
	if err := c.KeepChoices(away, compute.Choices{"other": "tiles"}); err != nil {
		t.Fatal(err)
	}
	if got := c.Choices(nil); got != nil {
		t.Errorf("for no device: found %v", got)
	}
	for _, p := range cputest.Paths()[1:] {
		undo := cpuinfo.Limit(p)
		if got := c.Choices(host); got != nil {
			t.Errorf("on %v: found %v", p, got)
		}
		undo()
	}
	if got := c.Choices(host); !maps.Equal(got, all) {
		t.Errorf("in the end %v, want %v", got, all)
	}
	if got := (*Cache)(nil).Choices(host); got != nil {
		t.Errorf("no cache has %v", got)
	}
	for _, bad := range []compute.Choices{{"": "a"}, {"p": ""}, {"p": "a b"}, {"p\nq": "a"}} {
		if err := c.KeepChoices(host, bad); err == nil {
			t.Errorf("%v is kept", bad)
		}
	}
}

// TestManyChoices holds the bound: what was measured last is kept.
func TestManyChoices(t *testing.T) {
	c := newCache(t)
	half := func(name string) compute.Choices {
		return compute.Choices{strings.Repeat(name, maxChoices*2/3): "product"}
	}
	for _, name := range []string{"a", "b"} {
		if err := c.KeepChoices(host, half(name)); err != nil {
			t.Fatal(err)
		}
		if got := c.Choices(host); !maps.Equal(got, half(name)) {
			t.Errorf("%d problems after %q", len(got), name)
		}
	}
	err := c.KeepChoices(host, compute.Choices{strings.Repeat("c", maxChoices): "product"})
	if err == nil || len(c.Choices(host)) != 1 {
		t.Errorf("error %v, %d problems", err, len(c.Choices(host)))
	}
}

// TestDamagedChoices holds that a damaged file is none, and goes.
func TestDamagedChoices(t *testing.T) {
	c := newCache(t)
	if err := c.KeepChoices(host, someChoices); err != nil {
		t.Fatal(err)
	}
	name := c.only(t, choicesSuffix)
	whole := read(t, name)
	for i := range whole {
		for what, damaged := range map[string][]byte{"cut short": whole[:i],
			"a bit": flipped(whole, i)} {
			write(t, name, damaged)
			if got := c.Choices(host); got != nil {
				t.Fatalf("%s at %d: %v", what, i, got)
			}
			if _, err := os.Stat(name); err == nil {
				t.Fatalf("%s at %d: the file is still there", what, i)
			}
		}
	}
	if err := c.KeepChoices(host, someChoices); err != nil || !bytes.Equal(read(t, name), whole) {
		t.Errorf("not kept as it was: %v", err)
	}
}

func flipped(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1 << (i % 8)
	return b
}

// FuzzChoices decodes foreign bytes. What is accepted is written as it was read.
func FuzzChoices(f *testing.F) {
	good, err := encodeChoices("a processor", someChoices)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:4])
	f.Add(flipped(good, len(good)-3))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		processor, choices, err := decodeChoices(data)
		if err != nil {
			return
		}
		again, err := encodeChoices(processor, choices)
		if err != nil {
			t.Fatalf("%v was read: %v", choices, err)
		}
		if p, c, err := decodeChoices(again); err != nil || p != processor ||
			!maps.Equal(c, choices) {
			t.Errorf("%v of %q became %v of %q, %v", choices, processor, c, p, err)
		}
	})
}

// TestTunedPlan starts a model before and after choices were kept for it: a plan serves the choices
// that it was made with only.
func TestTunedPlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	o := plan.Options{Target: host, Shapes: oneImage, Threads: 2}
	c := newCache(t)
	before, _ := start(t, c, path, o)
	if again, cached := start(t, c, path, o); !cached || !bytes.Equal(again, before) {
		t.Fatal("not from the cache")
	}
	if err := c.KeepChoices(host, otherWays(t, c, path, o)); err != nil {
		t.Fatal(err)
	}
	after, cached := start(t, c, path, o)
	if cached {
		t.Error("a plan that was made before is used with other choices")
	}
	// plain Go adds up in one order whatever the way
	if bytes.Equal(after, before) && cpuinfo.HasAVX2FMA() {
		t.Error("choices that make all steps compute in another way give the same bits")
	}
	for threads := range 2 {
		o.Threads = threads + 1
		if again, cached := start(t, c, path, o); !cached || !bytes.Equal(again, after) {
			t.Errorf("%d threads: from the cache: %v; the bits of the start before: %v", o.Threads,
				cached, bytes.Equal(again, after))
		}
	}
	without, _ := start(t, nil, path, o)
	if !bytes.Equal(without, before) {
		t.Error("choices are used without a cache")
	}
	if err := os.Remove(c.only(t, choicesSuffix)); err != nil {
		t.Fatal(err)
	}
	if again, cached := start(t, c, path, o); cached || !bytes.Equal(again, before) {
		t.Errorf("without the choices: from the cache: %v; the bits of before: %v", cached,
			bytes.Equal(again, before))
	}
}

// otherWays chooses, for all steps of a model that can, the last of their ways.
func otherWays(t *testing.T, c *Cache, path string, o plan.Options) compute.Choices {
	t.Helper()
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	compiled, err := m.Compile(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	choices := compute.Choices{}
	for i := range compiled.Plan.Steps {
		if k, ok := compiled.Plan.Steps[i].Kernel.(compute.Choosing); ok {
			ways := k.Algorithms()
			choices[k.Problem()] = ways[len(ways)-1]
		}
	}
	return choices
}

// TestTrimChoices holds that the bound of a cache counts choices, and that they are in use as long
// as they are found.
func TestTrimChoices(t *testing.T) {
	c := newCache(t)
	if err := c.KeepChoices(host, someChoices); err != nil {
		t.Fatal(err)
	}
	name := c.only(t, choicesSuffix)
	c.max = 1
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	if c.Choices(host) == nil {
		t.Error("not found")
	}
	if info, err := os.Stat(name); err != nil || !info.ModTime().After(old) {
		t.Errorf("its use is not noted: %v", err)
	}
	c.trim()
	if len(c.files(t, choicesSuffix)) > 0 {
		t.Error("it is still there")
	}
}

func TestRelease(t *testing.T) {
	dep := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v1.0.0"},
			Deps: []*debug.Module{{Path: module, Version: version}}}
	}
	replaced := dep("v1.2.3")
	replaced.Deps[0].Replace = &debug.Module{Path: "../weir"}
	for name, tc := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"the command": {
			&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}},
			"version v1.2.3"},
		"a program that imports it": {dep("v1.2.3"), "version v1.2.3"},
		"of a working tree":         {dep("(devel)"), "build"},
		"of changed files":          {dep("v0.0.0-20260101000000-0123456789ab+dirty"), "build"},
		"of a folder":               {replaced, "build"},
		"without information":       {nil, "build"},
		"without a version":         {dep(""), "build"},
		"a program that has no weir": {&debug.BuildInfo{Main: debug.Module{Path: "example.com/app",
			Version: "v1"}}, "build"},
	} {
		if got := release(tc.info, "build"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
