// Command _generate writes the assembly of package conv; its argument is the folder of the package.
package main

import "github.com/weirgpu/weir/internal/asm"

const generator = "internal/kernel/conv/_generate"

func main() { asm.Main(generate) }

func generate(folder string) error {
	for name, write := range map[string]func(*asm.File){
		"kernels_amd64": kernels, "nhwc_amd64": pixels, "nhwc_tiles_amd64": tiledPixels,
		"nhwc16_amd64": halves16, "dots_amd64": dots,
	} {
		s := asm.NewFile(generator, "conv")
		write(s)
		if err := s.Save(folder, name); err != nil {
			return err
		}
	}
	if err := saveLoops(folder); err != nil {
		return err
	}
	s := asm.NewFileFor("arm64", generator, "conv")
	neonKernels(s)
	return s.Save(folder, "kernels_arm64")
}

// kernels writes those for amd64.
func kernels(s *asm.File) {
	tables(s)
	winogradTables(s)
	winogradNarrowTables(s)
	copies(s)
	for _, v := range []asm.Vector{asm.AVX2, asm.AVX512} {
		depthwises(s, v)
	}
	for stride := 1; stride <= 2; stride++ {
		padRows(s, stride)
		padRowsNarrow(s, stride)
		poolBand(s, true, stride)
		poolBand(s, false, stride)
	}
	separables(s, asm.AVX2)
	smallPlanes(s)
	halvedPlanes(s)
	smallPlanesNarrow(s)
	halvedPlanesNarrow(s)
	winogradIn(s)
	winogradOut(s)
	winogradWeights(s)
	storeRuns(s)
	winogradInNarrow(s)
	winogradOutNarrow(s)
	storeRunsNarrow(s)
}

// copies writes the copies of what taps see.
func copies(s *asm.File) {
	copyLanes(s)
	copyEven(s)
	copyThird(s)
	copyThirdNarrow(s)
	copyOverlapping(s)
	copyTaps(s, 1)
	copyTaps(s, 2)
	for _, stride := range []int{1, 2} {
		copyTapsNarrow(s, stride)
		copyPair(s, stride)
	}
	for stride := 1; stride <= 2; stride++ {
		for vectors := 1; vectors <= 2; vectors++ {
			copyMasked(s, stride, vectors)
		}
	}
}

// tables are the bits of a word, one a lane, the lane numbers 0, 2, 4, ... of permutations of two
// vectors, and words of ones followed by zeros: a load that starts 16-n words into them gives a
// mask of n lanes.
func tables(s *asm.File) {
	s.Line("")
	s.Words("laneBits", "0x%08x", 32, func(i int) any { return uint32(1) << i })
	s.Line("")
	s.Words("evenLanes", "%d", 16, func(i int) any { return 2 * i })
	s.Line("")
	s.LaneMask()
}
