// Command _generate writes the assembly of package gemm; its argument is the folder of the package.
package main

import "github.com/weirgpu/weir/internal/asm"

func main() { asm.Main(generate) }

// generate writes a file for each form of numbers, and three for arm64.
func generate(folder string) error {
	for name, routines := range map[string]func(s *asm.File){
		"tile_amd64": floats,
		"bf16_amd64": func(s *asm.File) {
			tiles(s, bf16)
			joinBF16(s)
		},
		"bytes_amd64": func(s *asm.File) {
			tiles(s, u8s8)
			tiles(s, s8u8)
		},
		"wide_amd64": func(s *asm.File) {
			s.Line("")
			s.LaneMask()
			widening(s)
			wides(s, "BF16", bf16)
			wides(s, "U8S8", u8s8)
			wides(s, "S8U8", s8u8)
		},
	} {
		s := asm.NewFile("internal/kernel/gemm/_generate", "gemm")
		routines(s)
		if err := s.Save(folder, name); err != nil {
			return err
		}
	}
	s := asm.NewFileFor("arm64", "internal/kernel/gemm/_generate", "gemm")
	neonTiles(s)
	if err := s.Save(folder, "tile_arm64"); err != nil {
		return err
	}
	s = asm.NewFileFor("arm64", "internal/kernel/gemm/_generate", "gemm")
	dotTiles(s, "DotU8S8")
	dotTiles(s, "DotS8U8")
	bytesTiles(s, "BytesU8S8")
	bytesTiles(s, "BytesS8U8")
	if err := s.Save(folder, "bytes_arm64"); err != nil {
		return err
	}
	s = asm.NewFileFor("arm64", "internal/kernel/gemm/_generate", "gemm")
	for _, form := range []string{"BF16", "U8S8", "S8U8"} {
		matrixTiles(s, form)
	}
	quads(s)
	return s.Save(folder, "quads_arm64")
}

func floats(s *asm.File) {
	s.Line("")
	s.LaneMask()
	for _, v := range []vector{avx2, avx512} {
		tiles(s, v)
	}
	transpose512(s)
	transpose256(s)
	copyRows(s)
	copyPart(s)
	peak(s)
}
