package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

func TestCountsAreParsed(t *testing.T) {
	c, err := parse(strings.NewReader("mark 10\nmark 110\nmark 130\nmark 151\n" +
		"block 400a0 3 7\nblock 400b0 1 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []block{{0x400a0, 3, 7}, {0x400b0, 1, 2}}; !slices.Equal(c.blocks, want) {
		t.Errorf("blocks %v, want %v", c.blocks, want)
	}
	runs, err := c.runs()
	if want := []uint64{20, 21}; err != nil || !slices.Equal(runs, want) {
		t.Errorf("runs %v, %v, want %v: the first warms up", runs, err, want)
	}
	for _, bad := range []string{"mark", "mark x\n", "block 1 2\n", "block q 2 3\n", "sum 1\n"} {
		if _, err := parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := (&counts{marks: []uint64{1, 2}}).runs(); err == nil {
		t.Error("one run alone has runs after it")
	}
}

func TestBlocksGoToTheirFunctions(t *testing.T) {
	symbols := []elf.Symbol{
		{Name: "a", Value: 100, Size: 20},
		{Name: "b", Value: 120, Size: 8},
		{Name: "c", Value: 200, Size: 4},
	}
	blocks := []block{{99, 1, 1}, {100, 2, 3}, {119, 1, 4}, {120, 5, 6}, {128, 1, 1}, {203, 1, 2}}
	got := attribute(symbols, blocks, 3)
	want := []share{{"b", 30, 30. / 44}, {"a", 10, 10. / 44}, {"c", 2, 2. / 44}}
	if !slices.Equal(got[:2], want[:2]) || len(got) != 3 {
		t.Errorf("got %v, want %v", got, want)
	}
	if all := attribute(symbols, blocks, 9); len(all) != 4 || !slices.Contains(all, want[2]) {
		t.Errorf("got %v: c and elsewhere are missing", all)
	}
}

func TestPluginAPIs(t *testing.T) {
	for _, e := range []struct {
		said string
		want int
	}{
		{"qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", 1},
		{"qemu-aarch64 version 8.1.0", 1}, {"qemu-aarch64 version 8.2.0", 2},
		{"qemu-aarch64 version 10.0.3", 2},
	} {
		if got, err := pluginAPI(e.said); got != e.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", e.said, got, err, e.want)
		}
	}
	if _, err := pluginAPI("qemu-aarch64 version 5.2.0"); !errors.Is(err, errTool) {
		t.Errorf("version 5: %v", err)
	}
	if _, err := pluginAPI("box64"); err == nil {
		t.Error("another emulator is taken")
	}
}

func TestJudgement(t *testing.T) {
	for _, e := range []struct {
		name string
		line line
		held bool
	}{
		{"at the bounds", line{Neon: 100, Plain: 600, Peer: 100}, true},
		{"over plain Go's", line{Neon: 101, Plain: 600, Peer: 200}, false},
		{"over the peer's", line{Neon: 101, Plain: 6000, Peer: 100}, false},
		{"another output", line{Neon: 1, Plain: 600, Peer: 100, Distance: 0.01}, false},
	} {
		r := report{}
		e.line.claim(&r.Claims)
		if len(r.Claims) != 3 {
			t.Fatalf("%s: %d claims", e.name, len(r.Claims))
		}
		if held := r.Claims.Judge(io.Discard); held != e.held {
			t.Errorf("%s: held %v", e.name, held)
		}
	}
}

func TestJudgementOfProducts(t *testing.T) {
	for _, e := range []struct {
		bytes, halves float64
		held          bool
	}{{0.35, 0.6, true}, {0.36, 0.6, false}, {0.35, 0.61, false}} {
		r := report{}
		l := &productLine{OverFloat: map[string]float64{"int8 i8mm": e.bytes,
			"bf16 bf16": e.halves, "int8 neon": 40}}
		l.claim(&r.Claims)
		if held := r.Claims.Judge(io.Discard); held != e.held || len(r.Claims) != 2 {
			t.Errorf("%v: held %v by %d claims", e, held, len(r.Claims))
		}
	}
}

func TestInputs(t *testing.T) {
	ids := made(zoo.Input{Name: "input_ids", DType: tensor.Int64, Shape: []int{1, 128}, Limit: 50})
	if len(ids) != 8*128 || slices.Max(ids) >= 50 || bytes.Equal(ids[:8], ids[8:16]) {
		t.Errorf("token numbers %v", ids[:16])
	}
	mask := made(zoo.Input{Name: "attention_mask", DType: tensor.Int64, Shape: []int{1, 2},
		Limit: 2})
	if want := []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(mask, want) {
		t.Errorf("a mask without padding is %v", mask)
	}
}

func TestMemberOfAnArchive(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	for _, name := range []string{"package/other", "package/lib"} {
		h := &tar.Header{Name: name, Size: int64(len(name)), Mode: 0o600}
		if err := a.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(a, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := member(bytes.NewReader(b.Bytes()), "package/lib")
	if string(got) != "package/lib" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := member(bytes.NewReader(b.Bytes()), "package/none"); err == nil {
		t.Error("no error of a file that the archive lacks")
	}
	if err := checkHash(got, "here"); err == nil || !strings.Contains(err.Error(), peerHash) {
		t.Errorf("another file than the pinned one: %v", err)
	}
}

// guestText marks, runs a loop of 3 instructions 1000 times behind 1, and marks again, three times;
// a mark is 2 instructions and the call.
const guestText = `
.macro mark
  mov x0, #-0x6972
  movk x0, #0x889a, lsl #16
  mov x8, #57
  svc #0
.endm
.global _start
_start:
.rept 3
  mark
  mov x1, #1000
1: nop
  subs x1, x1, #1
  b.ne 1b
.endr
  mark
  mov x8, #93
  mov x0, #0
  svc #0
`

// What the plugin counts of a program in assembly is known beforehand.
func TestCountIsExact(t *testing.T) {
	const binutils = "aarch64-linux-gnu-"
	for _, name := range []string{"qemu-aarch64", "gcc", binutils + "as", binutils + "ld"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	e, err := newEmulator(t.TempDir(), "cortex-a72")
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(e.folder, "guest.s")
	if err := os.WriteFile(source, []byte(guestText), 0o666); err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(e.folder, "guest")
	for _, c := range [][]string{
		{"as", "-o", guest + ".o", source}, {"ld", "-o", guest, guest + ".o"},
	} {
		if err := said(exec.Command(binutils+c[0], c[1:]...)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := e.run(nil, guest)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := c.runs()
	const each = 1 + 3*1000 + 4
	if want := []uint64{each, each}; err != nil || !reflect.DeepEqual(runs, want) {
		t.Errorf("runs of %v instructions, %v, want %v", runs, err, want)
	}
	var sum uint64
	for _, b := range c.blocks {
		sum += b.length * b.runs
	}
	if sum != each {
		t.Errorf("blocks of the last run have %d instructions, want %d", sum, each)
	}
}

func TestUnknownProcessorsAreRefused(t *testing.T) {
	e := &emulator{root: t.TempDir(), cpu: "cortex-a510"}
	if err := e.furnish(); err == nil || !strings.Contains(err.Error(), "neoverse-n1") {
		t.Errorf("got %v", err)
	}
}
