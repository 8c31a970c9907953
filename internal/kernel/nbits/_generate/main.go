// Command _generate writes the assembly of package nbits; its argument is the folder of the
// package.
package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirgpu/weir/internal/asm"
)

// vector is a width of registers: the rows that a product takes at most, and how instructions are
// called that have another name with AVX-512.
type vector struct {
	asm.Vector
	mostFloats, mostBytes int
	and, load, xor        string
}

var (
	avx2   = vector{asm.AVX2, 3, 3, "VPAND", "VMOVDQU", "VPXOR"}
	avx512 = vector{asm.AVX512, 4, 12, "VPANDD", "VMOVDQU32", "VPXORD"}
	neon   = vector{Vector: asm.VectorNEON} // whose products stand in neon.go
)

// kernels writes the functions of one width.
type kernels struct {
	asm.Code
	v vector
}

// newKernels begins a file of functions.
func newKernels(arch string) *kernels {
	return &kernels{Code: asm.Code{File: asm.NewFileFor(arch, "internal/kernel/nbits/_generate",
		"nbits")}}
}

// use takes the functions that follow for a width.
func (k *kernels) use(v vector) { k.v, k.Vector = v, v.Vector }

// op writes one instruction; operands that are numbers are vector registers of the width.
func (k *kernels) op(name string, operands ...any) {
	words := make([]string, len(operands))
	for i, o := range operands {
		if n, ok := o.(int); ok {
			words[i] = k.v.R(n)
		} else {
			words[i] = o.(string)
		}
	}
	k.Op("%s %s", name, strings.Join(words, ", "))
}

func (k *kernels) end() { k.Ops("VZEROUPPER", "RET") }

// clear makes a register zero.
func (k *kernels) clear(r int) { k.op(k.v.xor, r, r, r) }

// spread fills a register with a number of 32 bits.
func (k *kernels) spread(r int, value uint32) {
	k.Ops(fmt.Sprintf("MOVL $%#x, AX", value), fmt.Sprintf("VMOVD AX, X%d", r))
	k.op("VPBROADCASTD", fmt.Sprintf("X%d", r), r)
}

// choice writes the function that calls the one of its rows.
func (k *kernels) choice(name string, most int, reference string) {
	k.Declare("\n// %s computes t with the kernel of its rows, %d at most; %s defines it.\n"+
		"func %s(t *tile) {\n\tswitch t.rows {\n", name, most, reference, name)
	for r := 1; r <= most; r++ {
		k.Declare("\tcase %d:\n\t\t%s%d(t)\n", r, name, r)
	}
	k.Declare("\t}\n}\n")
}

func main() {
	asm.Main(func(folder string) error {
		k := newKernels("amd64")
		tables(k)
		for _, v := range []vector{avx2, avx512} {
			k.use(v)
			floats(k)
			byteProducts(k)
			widen(k)
			quantise(k)
		}
		if err := k.Save(folder, "nbits_amd64"); err != nil {
			return err
		}
		return arm64(folder)
	})
}

// tables writes the numbers -8 to 7, which the values of four bits stand for less half their range.
func tables(k *kernels) {
	k.Line("")
	k.Words("centred", "%#08x", 16, func(i int) any { return math.Float32bits(float32(i - 8)) })
}
