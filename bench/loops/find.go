package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// find builds a package for arm64 and returns the hot loops of its routines whose names match both.
func find(pkg string, names, only *regexp.Regexp, m *model) (loops []*loop, err error) {
	folder, err := os.MkdirTemp("", "loops")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "program")
	build := exec.Command("go", "test", "-c", "-o", path, pkg) // which keeps all symbols
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s for arm64: %w: %s", pkg, err, out)
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	known := 0
	for _, s := range symbols {
		bare, routine := strings.CutSuffix(s.Name, ".abi0") // and not Go's wrapper of one
		name, ours := strings.CutPrefix(bare, pkg+".")
		if !routine || !ours || !names.MatchString(name) {
			continue
		}
		known++
		if !only.MatchString(name) {
			continue
		}
		words, err := code(f, s)
		if err != nil {
			return nil, err
		}
		l, err := hottest(name, words, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		loops = append(loops, l)
	}
	if known == 0 {
		return nil, fmt.Errorf("%s has no %s for arm64", pkg, names)
	}
	return loops, nil
}

// code reads the instructions of a routine.
func code(f *elf.File, s elf.Symbol) ([]uint32, error) {
	text := f.Section(".text")
	data := make([]byte, s.Size)
	if _, err := text.ReadAt(data, int64(s.Value-text.Addr)); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return words, nil
}

// hottest is the loop without another in it that multiplies most.
func hottest(name string, words []uint32, m *model) (*loop, error) {
	text, err := m.disassemble(words)
	if err != nil {
		return nil, err
	}
	best := &loop{Kernel: name, Cycles: map[string]float64{}, Share: map[string]float64{},
		OfLimit: map[string]float64{}, OfUnits: map[string]float64{}, Waits: map[string]string{},
		Large: large(name)}
	begin := 0 // after the last branch back
	for i, w := range words {
		back, ok := target(w)
		if !ok || back >= 0 {
			continue
		}
		if i+back >= begin {
			best.take(text[i+back : i+1])
		}
		begin = i + 1
	}
	if best.Instructions == 0 {
		return nil, errors.New("no loop")
	}
	return best, nil
}

// large reports whether a kernel has results enough to keep the multipliers of every processor
// busy: four that begin a cycle, each of which takes four, and five those of BFMMLA. Tiles of dot
// products turn the highest bits of B over in the same units. Of loops of convolutions these are
// those of depthwise ones that read whole rows, but of windows of 5x5 with strides of 2 down, of
// whose 16 sums an input meets 12 at most. The others wait for loads, stores and shuffles.
func large(name string) bool {
	if rows.MatchString(name) {
		return true
	}
	var rows, cols int
	_, size, _ := strings.Cut(name, "_")
	n, err := fmt.Sscanf(size, "%dx%d", &rows, &cols)
	registers := rows * cols / 4
	return err == nil && n == 2 && registers >= 16 && !strings.HasPrefix(name, "tileDot") &&
		(registers >= 20 || !strings.HasPrefix(name, "matrixBF16"))
}

var rows = regexp.MustCompile("^(rows3x3|rows5x5s1|smallPlanes)")

// take takes a loop that multiplies more than the one so far. Its branch, which leads nowhere in
// the model, is one that is taken.
func (l *loop) take(text []string) {
	n, by := 0, map[string]int{}
	for _, s := range text {
		if found := arithmetic.FindStringSubmatch(s); found != nil {
			by[found[1]]++
			n++
		}
	}
	if n > l.Multiplies || n == l.Multiplies && len(text) > l.Instructions {
		l.Multiplies, l.multiplies, l.Instructions = n, by, len(text)
		l.text = strings.Join(text, "\n") + "\n"
	}
}

// arithmetic are the instructions that the units for multiply-add run: on vectors of floats, one as
// long as another, and those on bytes and bfloat16.
var arithmetic = regexp.MustCompile(
	`^(f(?:mla|mls|mul|add|sub|max|min)|[su]dot|usmmla|bfmmla)\s+v\d+\.4s`)

// target is where a conditional branch leads, in instructions from it: CBZ, CBNZ and B.cond of the
// Arm Architecture Reference Manual, C6.2, have it in bits 5 to 23.
func target(w uint32) (int, bool) {
	if w>>25&0x3f != 0x1a && w>>24 != 0x54 {
		return 0, false
	}
	return int(int32(w<<8) >> 13), true
}
