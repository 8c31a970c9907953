// Command _generate writes the assembly of package gemm; its argument is the folder of the package.
package main

import "github.com/weirgpu/weir/internal/asm"

func main() { asm.Main(generate) }

// generate writes a file for each form of numbers, and three for arm64.
func generate(folder string) error {
	for _, f := range []struct {
		arch, name string
		routines   func(s *asm.File)
	}{
		{"amd64", "tile_amd64", float32s},
		{"amd64", "bf16_amd64", func(s *asm.File) {
			tiles(s, bf16AMD64...)
			joinBF16(s)
		}},
		{"amd64", "bytes_amd64", func(s *asm.File) { tiles(s, bytesAMD64...) }},
		{"amd64", "wide_amd64", func(s *asm.File) {
			s.Line("")
			s.LaneMask()
			widening(s)
			tiles(s, wideAMD64...)
		}},
		{"amd64", "amx_amd64", amx},
		{"amd64", "finish_amd64", finishing},
		{"arm64", "tile_arm64", func(s *asm.File) { tiles(s, neon...) }},
		{"arm64", "bytes_arm64", func(s *asm.File) { tiles(s, bytesARM64...) }},
		{"arm64", "quads_arm64", func(s *asm.File) {
			tiles(s, matricesARM64...)
			quads(s)
		}},
	} {
		s := asm.NewFileFor(f.arch, "internal/kernel/gemm/_generate", "gemm")
		f.routines(s)
		if err := s.Save(folder, f.name); err != nil {
			return err
		}
	}
	return nil
}

func float32s(s *asm.File) {
	s.Line("")
	s.LaneMask()
	tiles(s, avx2, avx512)
	transpose512(s)
	transpose256(s)
	copyRows(s)
	copyPart(s)
	peak(s)
}
