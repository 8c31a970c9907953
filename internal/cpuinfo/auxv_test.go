package cpuinfo

import (
	"encoding/binary"
	"testing"
)

func TestPathOfArmFeatures(t *testing.T) {
	for f, want := range map[armFeatures]Path{
		{}:                                  PathNEON,
		{i8mm: true, bf16: true}:            PathNEON,
		{dot: true}:                         PathDotProd,
		{dot: true, bf16: true}:             PathDotProd,
		{dot: true, i8mm: true}:             PathI8MM,
		{dot: true, i8mm: true, bf16: true}: PathBF16,
	} {
		if got := f.path(); got != want {
			t.Errorf("%+v: path %v, want %v", f, got, want)
		}
	}
}

// TestFeaturesOfTheAuxiliaryVector reads vectors as the kernel writes them, and those that say
// nothing, are cut or end early.
func TestFeaturesOfTheAuxiliaryVector(t *testing.T) {
	vector := func(words ...uint64) (v []byte) {
		for _, w := range words {
			v = binary.LittleEndian.AppendUint64(v, w)
		}
		return v
	}
	all := armFeatures{true, true, true}
	for _, c := range []struct {
		name   string
		vector []byte
		want   armFeatures
	}{
		{"everything", vector(33, 1, 16, ^uint64(0), 6, 4096, 26, ^uint64(0), 0, 0), all},
		{"nothing", nil, armFeatures{}},
		{"others only", vector(16, ^uint64(1<<20), 26, ^uint64(3<<13), 0, 0), armFeatures{}},
		{"dot products", vector(16, 1<<20, 26, 0, 0, 0), armFeatures{dot: true}},
		{"products of bytes", vector(16, 0, 26, 1<<13), armFeatures{i8mm: true}},
		{"bfloat16", vector(26, 1<<14), armFeatures{bf16: true}},
		{"hidden behind the end", vector(16, 1<<20, 0, 0, 26, 3<<13), armFeatures{dot: true}},
		{"cut", vector(16, 1<<20, 26, 3<<13)[:31], armFeatures{dot: true}},
	} {
		if got := auxFeatures(c.vector); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
