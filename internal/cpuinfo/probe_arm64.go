//go:build !noasm

package cpuinfo

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/refmath"
)

// vector is what a register holds.
type vector [16]byte

func probeSDOT(d, n, m *vector)
func probeUDOT(d, n, m *vector)
func probeUSMMLA(d, n, m *vector)
func probeBFMMLA(d, n, m *vector)
func probeBFCVTN(d, n, m *vector)

// probe is an instruction and its definition. Others of its kind, such as those on lanes, are taken
// to do what it does.
type probe struct {
	name   string
	run    func(d, n, m *vector)
	define func(d, n, m *vector)
}

// probes are the instructions of the paths that kernels use.
var probes = map[Path][]probe{
	PathDotProd: {{"SDOT", probeSDOT, defineSDOT}, {"UDOT", probeUDOT, defineUDOT}},
	PathI8MM:    {{"USMMLA", probeUSMMLA, defineUSMMLA}},
	PathBF16:    {{"BFMMLA", probeBFMMLA, defineBFMMLA}, {"BFCVTN", probeBFCVTN, defineBFCVTN}},
}

// probeRounds is how many operands an instruction is tried with.
const probeRounds = 64

// try runs the instructions that a path adds.
func try(p Path) (err error) {
	guard := guarded(func() { err = tryAll(probes[p]) })
	if err == nil {
		err = guard
	}
	return err
}

func tryAll(all []probe) error {
	for _, x := range all {
		state := uint64(1)
		for round := range probeRounds {
			var d, n, m vector
			for _, v := range []*vector{&d, &n, &m} {
				for i := range 4 {
					w := uint32(next(&state))
					if round%2 > 0 { // numbers of bfloat16 from 2^-15 to 2
						w = w&^0x78007800 | 0x38003800
					}
					v.set(i, w)
				}
			}
			got, want := d, d
			x.run(&got, &n, &m)
			x.define(&want, &n, &m)
			if got != want {
				return fmt.Errorf("%s of %x and %x and %x gives %x, want %x", x.name, d, n, m, got,
					want)
			}
		}
	}
	return nil
}

// next draws a number (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014).
func next(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// word is lane i.
func (v *vector) word(i int) uint32 { return binary.LittleEndian.Uint32(v[4*i:]) }

func (v *vector) set(i int, w uint32) { binary.LittleEndian.PutUint32(v[4*i:], w) }

func defineSDOT(d, n, m *vector) {
	for i := range 4 {
		sum := int32(d.word(i))
		for k := range 4 {
			sum += int32(int8(n[4*i+k])) * int32(int8(m[4+k]))
		}
		d.set(i, uint32(sum))
	}
}

func defineUDOT(d, n, m *vector) {
	for i := range 4 {
		sum := d.word(i)
		for k := range 4 {
			sum += uint32(n[4*i+k]) * uint32(m[4*i+k])
		}
		d.set(i, sum)
	}
}

func defineUSMMLA(d, n, m *vector) {
	for i := range 4 {
		sum := int32(d.word(i))
		for k := range 8 {
			sum += int32(n[i/2*8+k]) * int32(int8(m[i%2*8+k]))
		}
		d.set(i, uint32(sum))
	}
}

func defineBFMMLA(d, n, m *vector) {
	for i := range 4 {
		sum := math.Float32frombits(d.word(i))
		for k := range 2 {
			sum = refmath.DotBF16(sum, n.word(i/2*2+k), m.word(i%2*2+k))
		}
		d.set(i, math.Float32bits(sum))
	}
}

func defineBFCVTN(d, n, _ *vector) {
	for i := range 4 {
		w := n.word(i)
		half := uint16((w + 0x7fff + w>>16&1) >> 16)
		if w&0x7fffffff > 0x7f800000 {
			half = uint16(w>>16) | 0x40
		}
		binary.LittleEndian.PutUint16(d[2*i:], half)
	}
	clear(d[8:])
}
