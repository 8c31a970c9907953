package asm

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// limited is a kernel that no package has: dst becomes at least x*y+dst, for every second of z.
var limited = Loop{
	Name: "limited", Does: "adds x times y to dst, at least what is even in z",
	Slices:  []Slice{{"dst", 1}, {"x", 1}, {"y", 1}, {"z", 2}},
	Vectors: 1,
	Begin:   func(c Code) { c.SplitBegins(8, 9) },
	Round: func(c Code, at []Reg) {
		c.Load(0, at[0], 0)
		c.LoadNext(at[1], 1)
		c.LoadNext(at[2], 2)
		c.LoadNext(at[3], 3, 4)
		c.Do(MulAdd, 0, 1, 2)
		c.Split(3, 4, 5, 8, 9)
		c.Raise(0, 3, 6)
		c.StoreNext(at[0], 0)
	},
}

// limitedMain compares it with what it says, at the levels whose numbers the linker writes. It
// imports nothing, so that it is built in no time for another architecture.
const limitedMain = `package main

var levels string

type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
	levelNEON
)

func main() {
	if levels == "" {
		panic("no levels")
	}
	for i := range levels {
		try(level(levels[i] - '0'))
	}
}

func try(v level) {
	for n := range 100 {
		dst, x, y := make([]float32, n), make([]float32, n), make([]float32, n)
		z, want := make([]float32, 2*n), make([]float32, n)
		for i := range n {
			dst[i], x[i], y[i], z[2*i], z[2*i+1] = float32(i), float32(i%7-3), float32(i%5),
				float32(i%11), 1000
			want[i] = max(dst[i]+x[i]*y[i], z[2*i])
		}
		done := limited(v, dst, x, y, z)
		if v == levelGo && done != 0 || v != levelGo && n-done >= 16 {
			println(v, n, "elements:", done)
			panic("another number of elements")
		}
		for i := range done {
			if dst[i] != want[i] {
				println(v, n, i, dst[i], want[i])
				panic("another result")
			}
		}
	}
}
`

// TestLoopServesBoth holds that one description is all that a new kernel takes: it is written for
// every instruction set, with the Go that chooses, and each computes what it says: here on amd64,
// and on arm64 where this is one, or can be emulated.
func TestLoopServesBoth(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	folder := t.TempDir()
	if err := SaveLoops("a test", "main", folder, "loops", []Loop{limited}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": limitedMain, "go.mod": "module limited\n\ngo 1.24\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	levels := map[string]string{"amd64": "0", "arm64": "03"}
	for i, has := range []bool{cpuinfo.HasAVX2FMA(), cpuinfo.HasAVX512()} {
		if has {
			levels["amd64"] += []string{"1", "2"}[i]
		}
	}
	for arch, levels := range levels {
		t.Run(arch, func(t *testing.T) { runEmulated(t, folder, arch, levels) })
	}
}

// runEmulated builds the program in a folder for some levels and runs it.
func runEmulated(t *testing.T, folder, arch, levels string) {
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-ldflags", "-X main.levels="+levels, "-o", program, ".")
	build.Dir = folder
	build.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := []string{program}
	if arch != runtime.GOARCH {
		emulator, err := exec.LookPath(map[string]string{"arm64": "qemu-aarch64",
			"amd64": "qemu-x86_64"}[arch])
		if err != nil {
			t.Skip("builds; no emulator runs it (Debian: qemu-user)")
		}
		line = []string{emulator, "-cpu", "max", program}
	}
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
