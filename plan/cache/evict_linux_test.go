package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/plan"
)

// present counts the pages of mem that the process has mapped (proc_pid_pagemap(5)).
func present(t *testing.T, mem []byte) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	first := int(uintptr(unsafe.Pointer(&mem[0]))) / page
	last := int(uintptr(unsafe.Pointer(&mem[len(mem)-1]))) / page
	entries := make([]byte, 8*(last-first+1))
	if _, err := f.ReadAt(entries, int64(8*first)); err != nil {
		t.Skip(err)
	}
	for ; len(entries) > 0; entries = entries[8:] {
		n += int(binary.NativeEndian.Uint64(entries) >> 63)
	}
	return n
}

// TestEvictLeavesMemory evicts weights that are mapped from the cache: their pages leave the
// process, come again by Recall, and have the same bytes.
func TestEvictLeavesMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	rowsModel(t, path)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	found := m.Find(t.Context(),
		plan.Options{Target: host, Shapes: map[string][]int{"i": {4}}, Threads: 2})
	if !found.Cached() || m.mappings[0].file == nil {
		t.Skip("the file system gives no leases")
	}
	s, err := engine.Load(found.Plan, engine.Options{Device: theDevice(), Pool: thePools()[2],
		Weights: found.Weights, Discard: found.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := bytes.Clone(found.Weights)
	if s.Evict(found.Plan.PackedBytes); present(t, found.Weights) != 0 {
		t.Errorf("%d pages are left", present(t, found.Weights))
	}
	err = s.WithWeights(t.Context(), func(got []byte) error {
		if present(t, got) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%d pages came again, same bytes: %v", present(t, got), bytes.Equal(got, want))
		}
		return nil
	})
	if err != nil || theDevice().Held() != found.Plan.PackedBytes {
		t.Errorf("%d bytes are held, error %v", theDevice().Held(), err)
	}
}

// TestCopyStays: of a file that is copied, since others could write it, no bytes leave memory.
func TestCopyStays(t *testing.T) {
	name := filepath.Join(t.TempDir(), "entry")
	want := bytes.Repeat([]byte{7}, 4*os.Getpagesize())
	write(t, name, want)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	c := newCache(t)
	c.lease = func(*os.File) error { return errors.ErrUnsupported }
	m, _, err := c.mapFile(f)
	if err != nil {
		t.Fatal(err)
	}
	m.discard(m.data)
	m.discardEnd(int64(len(want)), 0)
	if !bytes.Equal(m.data, want) {
		t.Error("bytes are lost")
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}
