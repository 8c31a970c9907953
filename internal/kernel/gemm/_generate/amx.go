package main

import "github.com/weirgpu/weir/internal/asm"

// amx writes products on tiles. Registers 0 to 3 are results, 4 and 5 rows of A, 6 and 7 columns of
// B. A is read past the first cache, where B's panel stays for all rows. The configuration is
// loaded first and given back last, so that no tile is live where the runtime may stop a goroutine.
func amx(s *asm.File) {
	for _, f := range []struct{ name, product string }{
		{"BF16", "tdpbf16ps"}, {"U8S8", "tdpbusd"}, {"S8U8", "tdpbsud"},
	} {
		s.Func("tilesAMX"+f.name, "t *tileArgs", 8, "does what tileCall.model does.")
		amxBegin(s)
		s.Label("rows")
		s.Ops("MOVQ R11, R12", "SHLQ $4, R12", "ADDQ R10, R12", "CMPQ tileArgs_add(DI), $0",
			"JNE add")
		for i := range 4 {
			s.Tile(asm.Tile{Name: "tilezero", Dst: i})
		}
		s.Op("JMP begin")
		s.Label("add")
		results(s, "tileloadd")
		s.Label("begin")
		s.Ops("MOVQ R13, SI", "MOVQ R13, DX", "ADDQ tileArgs_aTile(DI), DX",
			"MOVQ tileArgs_b(DI), BX", "MOVQ tileArgs_steps(DI), CX")
		s.Label("step")
		amxStep(s, f.product)
		s.Ops("ADDQ tileArgs_aStep(DI), SI", "ADDQ tileArgs_aStep(DI), DX", "ADDQ $2048, BX",
			"ADDQ R14, R15", "DECQ CX", "JNZ step")
		results(s, "tilestored")
		s.Ops("ADDQ tileArgs_aPanel(DI), R13", "ADDQ tileArgs_cPanel(DI), R10", "DECQ AX",
			"JNZ rows")
		s.Tile(asm.Tile{Name: "tilerelease"})
		s.Op("RET")
	}
	amxPeak(s, "BF16", "tdpbf16ps")
	amxPeak(s, "Bytes", "tdpbusd")
}

// amxPeak writes products of registers that do not wait for each other, and read no memory.
func amxPeak(s *asm.File, name, product string) {
	s.Func("peakAMX"+name, "t *tileArgs", 8,
		"multiplies t.steps times four tiles of zeros by each other.")
	s.Op("MOVQ t+0(FP), DI")
	s.Tile(asm.Tile{Name: "ldtilecfg", Base: "DI"})
	s.Op("MOVQ tileArgs_steps(DI), CX")
	for i := range 8 {
		s.Tile(asm.Tile{Name: "tilezero", Dst: i})
	}
	s.Label("step")
	for i := range 4 {
		s.Tile(asm.Tile{Name: product, Dst: i, A: 4 + i/2, B: 6 + i%2})
	}
	s.Ops("DECQ CX", "JNZ step")
	s.Tile(asm.Tile{Name: "tilerelease"})
	s.Op("RET")
}

// amxBegin loads the configuration, and what stays in registers.
func amxBegin(s *asm.File) {
	s.Op("MOVQ t+0(FP), DI")
	s.Tile(asm.Tile{Name: "ldtilecfg", Base: "DI"})
	s.Ops("MOVQ tileArgs_a(DI), R13", "MOVQ tileArgs_c(DI), R10", "MOVQ tileArgs_aRow(DI), R8",
		"MOVQ $128, R9",
		"MOVQ tileArgs_ldc(DI), R11", "MOVQ tileArgs_panels(DI), AX",
		"MOVQ tileArgs_ahead(DI), R15", "MOVQ tileArgs_aheadStep(DI), R14")
}

// results loads or stores the four registers of results.
func results(s *asm.File, name string) {
	for i := range 4 {
		s.Tile(asm.Tile{Name: name, Dst: i, Base: []string{"R10", "R12"}[i/2], Index: "R11",
			Disp: i % 2 * 64})
	}
}

// amxStep multiplies 16 words along K, and fetches eight lines of what comes next meanwhile.
func amxStep(s *asm.File, product string) {
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 6, Base: "BX", Index: "R9"})
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 4, Base: "SI", Index: "R8"})
	s.Tile(asm.Tile{Name: "tileloadd", Dst: 7, Base: "BX", Index: "R9", Disp: 64})
	s.Tile(asm.Tile{Name: product, Dst: 0, A: 4, B: 6})
	s.Tile(asm.Tile{Name: "tileloaddt1", Dst: 5, Base: "DX", Index: "R8"})
	s.Tile(asm.Tile{Name: product, Dst: 1, A: 4, B: 7})
	s.Tile(asm.Tile{Name: product, Dst: 2, A: 5, B: 6})
	s.Tile(asm.Tile{Name: product, Dst: 3, A: 5, B: 7})
	for i := range 8 {
		s.Op("PREFETCHT1 %d(R15)", 64*i)
	}
}
