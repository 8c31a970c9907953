package cache

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/zoo"
)

// withoutTiles takes the processor's own tiles from a test, which needs dot products beside them,
// as every processor with tiles has.
func withoutTiles(t *testing.T) {
	if !cpuinfo.HasAVX512BF16() {
		t.Skip("this processor does not multiply bfloat16")
	}
	t.Cleanup(cpuinfo.Limit(cpuinfo.PathAVX512BF16))
}

// textModel writes a model with products of as many rows as it has tokens, enough for tiles.
func textModel(t *testing.T, path string) {
	zooModel(t, path, "minilm-l6", zoo.Options{Layers: 1, Hidden: 64, Vocabulary: 100})
}

// sixteenTokens are the shapes of its inputs.
var sixteenTokens = map[string][]int{"input_ids": {1, 16}, "attention_mask": {1, 16},
	"token_type_ids": {1, 16}}

// TestTilesThatAreRefused holds that a plan in float32 asks the system for no tiles, that one in
// bfloat16 that was kept with tiles serves no process that is refused them, which finds out only as
// it loads that plan; that the kept plan stays; and that a plan made on being refused is kept for
// others that are.
func TestTilesThatAreRefused(t *testing.T) {
	withoutTiles(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	textModel(t, path)
	c := newCache(t)
	fp32 := plan.Options{Target: host, Shapes: sixteenTokens}
	bf16 := fp32
	bf16.Passes = pass.Options{Precision: pass.BF16}
	run := func(name string, o plan.Options, cached bool) (out []byte) {
		t.Helper()
		out, was := start(t, c, path, o)
		if was != cached {
			t.Errorf("%s: from the cache %v, want %v", name, was, cached)
		}
		return out
	}
	asked := 0
	system := func(err error) (undo func()) {
		asked = 0
		return cpuinfo.TilesOnAsking(func() error { asked++; return err })
	}
	without := run("without tiles", bf16, false)

	undo := system(nil)
	run("float32", fp32, false)
	if asked != 0 {
		t.Error("a plan in float32 asks for tiles")
	}
	tiles := run("on tiles", bf16, false)
	again := run("on tiles again", bf16, true)
	undo()
	if asked != 1 || bytes.Equal(tiles, without) || !bytes.Equal(tiles, again) {
		t.Errorf("asked %d times; the bits are those without tiles: %v; of a kept plan: %v", asked,
			bytes.Equal(tiles, without), bytes.Equal(tiles, again))
	}

	undo = system(errors.New("refused"))
	refused := run("refused, which was not known", bf16, true)
	undo()
	if asked != 1 || !bytes.Equal(refused, without) {
		t.Errorf("asked %d times; the bits are those without tiles: %v", asked,
			bytes.Equal(refused, without))
	}

	undo = system(nil)
	if x := run("the plan that was kept with tiles", bf16, true); !bytes.Equal(x, tiles) {
		t.Error("it has other bits")
	}
	undo()
}

// TestTilesAreRefusedAsAPlanIsMade holds that a plan whose making is what was refused tiles is kept
// as one without.
func TestTilesAreRefusedAsAPlanIsMade(t *testing.T) {
	withoutTiles(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	textModel(t, path)
	c := newCache(t)
	bf16 := plan.Options{Target: host, Shapes: sixteenTokens,
		Passes: pass.Options{Precision: pass.BF16}}
	undo := cpuinfo.TilesOnAsking(func() error { return errors.New("refused") })
	first, cached := start(t, c, path, bf16)
	undo()
	if cached {
		t.Fatal("from an empty cache")
	}
	undo = cpuinfo.TilesOnAsking(func() error { return nil })
	if _, cached := start(t, c, path, bf16); cached {
		t.Error("a plan made without tiles serves a process that has them")
	}
	undo()
	if out, cached := start(t, c, path, bf16); !cached || !bytes.Equal(out, first) {
		t.Errorf("without tiles: from the cache %v", cached)
	}
}
