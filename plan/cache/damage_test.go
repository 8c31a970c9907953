package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/plan"
)

// TestDamage damages an entry in many ways. Each time the start must give the right outputs from a
// plan made anew, and leave the entry as it was.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	want, _ := start(t, c, path, plan.Options{Target: host})
	name := c.only(t, planSuffix)
	whole := read(t, name)
	check := func(what string, damaged []byte) {
		t.Helper()
		write(t, name, damaged)
		if got, cached := start(t, c, path, plan.Options{Target: host}); cached || !bytes.Equal(got,
			want) {
			t.Errorf("%s: from the cache: %v; right: %v", what, cached, bytes.Equal(got, want))
		}
		if again := read(t, name); !bytes.Equal(again, whole) {
			t.Errorf("%s: the entry was not made anew as it was", what)
		}
	}
	e, err := parse(whole)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := layOut(uint64(e.tableBytes()), uint64(len(e.constants)), uint64(len(e.weights)))
	r := rand.New(rand.NewPCG(5, 6))
	for what, span := range map[string][2]int64{"head": {0, int64(headBytes)},
		"table":     {int64(headBytes), int64(headBytes + e.tableBytes())},
		"constants": {at.constantsAt, at.constantsAt + int64(len(e.constants))},
		"weights":   {at.weightsAt, at.size}} {
		for range 8 {
			damaged := bytes.Clone(whole)
			damaged[span[0]+r.Int64N(span[1]-span[0])] ^= 1 << r.IntN(8)
			check("a bit of the "+what, damaged)
		}
	}
	for range 8 {
		check("cut short", whole[:r.IntN(len(whole))])
	}
	check("empty", nil)
	check("longer", append(bytes.Clone(whole), 0))
	check("zeros", make([]byte, len(whole)))
	check("end lost", append(bytes.Clone(whole[:len(whole)-5000]), make([]byte, 5000)...))
	newer := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(newer[digestEnd:], formatVersion+1)
	resign(newer)
	check("another version", newer)
}

// TestForeignEntry gives an entry, sound in itself, the name of another.
func TestForeignEntry(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t)
	one, two := filepath.Join(dir, "1.onnx"), filepath.Join(dir, "2.onnx")
	smallModel(t, one, 1)
	smallModel(t, two, 2)
	start(t, c, one, plan.Options{Target: host})
	first := c.only(t, planSuffix)
	other := newCache(t)
	want, _ := start(t, other, two, plan.Options{Target: host})
	name := filepath.Base(other.only(t, planSuffix))
	for _, f := range other.files(t, "") {
		write(t, filepath.Join(c.dir, filepath.Base(f)), read(t, f))
	}
	write(t, filepath.Join(c.dir, name), read(t, first))
	if got, cached := start(t, c, two, plan.Options{Target: host}); cached || !bytes.Equal(got,
		want) {
		t.Errorf("from the cache: %v; right: %v", cached, bytes.Equal(got, want))
	}
}

// TestOtherPlan gives an entry another fingerprint, as a plan that is made in another way has.
func TestOtherPlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	name := c.only(t, planSuffix)
	b := read(t, name)
	b[headBytes+len(key{})] ^= 1
	resign(b)
	write(t, name, b)
	if _, cached := start(t, c, path, plan.Options{Target: host}); cached {
		t.Error("a plan of another fingerprint was used")
	}
}

// resign corrects the digest of an entry.
func resign(b []byte) {
	table := binary.LittleEndian.Uint64(b[digestEnd+4:])
	sum := sha256.Sum256(b[digestEnd : headBytes+int(table)])
	copy(b[len(magic):], sum[:])
}

// TestDamagedRecord damages the record of a model; the plan is found by the content's hash all the
// same.
func TestDamagedRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	name := c.only(t, recordSuffix)
	whole := read(t, name)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		if r, err := unseal(recordMagic, damaged); err == nil {
			t.Fatalf("byte %d: read %q", i, r)
		}
	}
	for _, damaged := range [][]byte{nil, whole[:len(whole)/2], append(bytes.Clone(whole), ' ')} {
		write(t, name, damaged)
		if _, cached := start(t, c, path, plan.Options{Target: host}); !cached {
			t.Error("not found")
		}
	}
}

// FuzzEntry reads foreign bytes as an entry: they are refused or give parts that lie within them.
// With sound checksums they reach the parser and the compiler, which must refuse them as well or
// give a plan.
func FuzzEntry(f *testing.F) {
	path := filepath.Join(f.TempDir(), "model.onnx")
	smallModel(f, path, 1)
	c := newCache(f)
	start(f, c, path, plan.Options{Target: host})
	whole := read(f, c.only(f, planSuffix))
	f.Add(whole[:headBytes], "graph \"g\" {}")
	f.Add([]byte(magic), `graph "g" {
  opset "" 17
  input %x: float32[2,32]
  const %w: float32[32,16] = at -1
  const %v: float32[32,16] = at 64
  %y: float32[2,16] = MatMul@13 "a" (%x, %w)
  output %y
  output %v
}`)
	constants := make([]byte, 1<<16)
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		if e, err := parse(b); err == nil {
			if len(e.text)+len(e.constants)+len(e.weights) > len(b) {
				t.Errorf("%d bytes hold %d of text, %d of constants, %d of weights", len(b),
					len(e.text), len(e.constants), len(e.weights))
			}
			if e.verify(1, false) == nil {
				_, _ = e.restore(context.Background(), plan.Options{Target: host, Threads: 1})
			}
		} else if !errors.Is(err, errDamaged) {
			t.Errorf("error %v is of another kind", err)
		}
		e := &entry{text: []byte(text), constants: constants}
		if p, err := e.restore(context.Background(),
			plan.Options{Target: host, Threads: 1}); err == nil && p.PackedBytes > 0 {
			t.Error("a plan came with fewer weights than it has")
		}
	})
}

// FuzzRecord reads foreign bytes as the record of a model.
func FuzzRecord(f *testing.F) {
	path := filepath.Join(f.TempDir(), "model.onnx")
	smallModel(f, path, 1)
	c := newCache(f)
	start(f, c, path, plan.Options{Target: host})
	whole := read(f, c.only(f, recordSuffix))
	f.Add(whole[len(recordMagic)+sha256.Size:])
	f.Add([]byte(`{"Files":[{}],"Inputs":"graph \"\" {}","Outputs":"graph \"\" {}"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = unseal(recordMagic, body)
		r, g, err := decodeRecord(body)
		if err == nil && (g == nil || len(r.Files) == 0) {
			t.Errorf("record %+v, graph %v", r, g)
		}
	})
}

// TestBuildID holds that the running program has one, which the linker made of its content.
func TestBuildID(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	head := read(t, path)[:64<<10]
	id := buildID(head)
	if len(id) < 20 || !bytes.Contains(head, []byte(id)) {
		t.Errorf("build ID %q", id)
	}
	for _, head := range [][]byte{nil, []byte("\x7fELF"),
		[]byte("\x7fELF\x04\x00\x00\x00Go\x00\x00"),
		[]byte("\x7fELF\xff\xff\xff\x00\x04\x00\x00\x00\x04\x00\x00\x00Go\x00\x00ab"),
		[]byte("\xff Go build ID: \"abc")} {
		if id := buildID(head); id != "" {
			t.Errorf("%q: build ID %q", head, id)
		}
	}
	if id := buildID([]byte("\xcf\xfa\xed\xfe\xff Go build ID: \"ab/cd\"\n \xff")); id != "ab/cd" {
		t.Errorf("build ID %q", id)
	}
}
