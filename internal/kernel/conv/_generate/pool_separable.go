package main

import (
	"fmt"

	"github.com/weirgpu/weir/internal/asm"
)

// separable writes the kernels of separable pooling, for either architecture: the rows under each
// output row are reduced into a line, and then the columns of the lines. Vectors of rows that have
// no more whole ones lie over those before. On amd64 a row shorter than a vector is masked, and on
// arm64 its columns come one by one.
type separable struct {
	asm.Code
	largest bool
}

// Registers of the kernels: planes left are in the frame on amd64, and divisors are of means alone.
var (
	poolArgs   = asm.Reg{AMD64: "BX", ARM64: "R0"}
	poolOut    = asm.Reg{AMD64: "R10", ARM64: "R3"} // an output row
	poolOuts   = asm.Reg{AMD64: "R11", ARM64: "R4"} // how many are left
	poolPlanes = asm.Reg{AMD64: "AX", ARM64: "R5"}
	poolFree   = asm.Reg{ARM64: "R14"}
	poolLeft   = asm.Reg{AMD64: "DX", ARM64: "R11"} // columns left
	poolSees   = asm.Reg{AMD64: "R9", ARM64: "R12"} // what a window sees, and what is left of it
	poolWidth  = asm.Reg{AMD64: "CX", ARM64: "R13"}

	// of the reduction of rows
	downPlane = asm.Reg{AMD64: "R8", ARM64: "R6"} // of the input
	downStep  = asm.Reg{AMD64: "R15", ARM64: "R7"}
	downLine  = asm.Reg{AMD64: "DI", ARM64: "R8"}
	downFrom  = asm.Reg{AMD64: "SI", ARM64: "R9"} // the columns of a vector in the input
	downTo    = asm.Reg{AMD64: "R13", ARM64: "R10"}
	downTaps  = asm.Reg{AMD64: "AX", ARM64: "R13"}

	// of the reduction of columns
	alongOut  = asm.Reg{AMD64: "DI", ARM64: "R1"}
	alongLine = asm.Reg{AMD64: "SI", ARM64: "R6"}
	alongTap  = asm.Reg{AMD64: "R15", ARM64: "R7"} // the distance of taps
	alongFrom = asm.Reg{AMD64: "R13", ARM64: "R9"}
	alongBy   = asm.Reg{AMD64: "R12", ARM64: "R15"} // divisors of the columns
)

// poolKind names a kind of pooling.
func poolKind(largest bool) string {
	if largest {
		return "Max"
	}
	return "Mean"
}

// separables writes all kernels of an instruction set.
func separables(s *asm.File, v asm.Vector) {
	for _, largest := range []bool{true, false} {
		p := separable{asm.Code{File: s, Vector: v}, largest}
		p.down()
		p.along(1)
		p.along(2)
	}
}

// Vectors, the first of each on amd64 and the second on arm64: what reducing with changes nothing,
// and the divisor of a row.
func (p separable) neutral() int { return p.either(6, 16) }
func (p separable) divisor() int { return p.either(9, 20) }

func (p separable) either(amd64, arm64 int) int {
	if p.ARM64() {
		return arm64
	}
	return amd64
}

// results are the registers of so many vectors of results.
func (p separable) results(vectors int) []int {
	return []int{0, p.either(4, 1), 2, 3}[:max(vectors, 1)]
}

// seen is the register that says where a NaN was seen for a result, on amd64.
func (separable) seen(result int) int { return map[int]int{0: 2, 4: 5}[result] }

// empty sets results to what nothing was reduced into.
func (p separable) empty(vectors int) {
	for _, r := range p.results(vectors) {
		p.Move(r, p.neutral())
		if p.largest && !p.ARM64() {
			p.Zero(p.seen(r))
		}
	}
}

// take takes a vector into a result. On amd64, where a NaN was seen, the larger of the two may be
// either.
func (p separable) take(x, result int) {
	switch {
	case !p.largest:
		p.Do(asm.Add, result, result, x)
	case p.ARM64():
		p.Vec("FMAX", result, result, x)
	default:
		p.Op("VMAXPS Y%[1]d, Y%[2]d, Y%[2]d", x, result)
		p.Op("VCMPPS $3, Y%[1]d, Y%[1]d, Y7", x)
		p.Op("VORPS Y7, Y%[1]d, Y%[1]d", p.seen(result))
	}
}

// takeBoth takes two vectors into a result, on amd64: a NaN of either is seen at once.
func (p separable) takeBoth(x, y, result int) {
	if !p.largest {
		p.take(x, result)
		p.take(y, result)
		return
	}
	p.Op("VMAXPS Y%[1]d, Y%[2]d, Y%[2]d", x, result)
	p.Op("VMAXPS Y%[1]d, Y%[2]d, Y%[2]d", y, result)
	p.Op("VCMPPS $3, Y%d, Y%d, Y7", y, x)
	p.Op("VORPS Y7, Y%[1]d, Y%[1]d", p.seen(result))
}

// finish makes results of which a NaN was seen one.
func (p separable) finish(vectors int) {
	for _, r := range p.results(vectors) {
		if p.largest && !p.ARM64() {
			p.Op("VORPS Y%[1]d, Y%[2]d, Y%[2]d", p.seen(r), r)
		}
	}
}

// begin loads what both have, with the mask of rows of so many columns that are shorter than a
// vector.
func (p separable) begin(name, columns, doc string) {
	p.Func(name+p.Name, "t *separablePool", 8, doc)
	p.Argument("t", 0, poolArgs)
	if !p.ARM64() {
		p.Op("MOVQ %s(BX), DX", columns)
		p.Ops("ANDQ $7, DX", "NEGQ DX", "LEAQ ·laneMask<>(SB), SI", "VMOVUPS 64(SI)(DX*4), Y8")
	}
	p.Every("separablePool_neutral", poolArgs, p.neutral())
}

// planes begins the loops over planes and output rows.
func (p separable) planes() {
	p.Label("plane")
	p.Field("separablePool_rows", poolArgs, poolOut)
	p.Field("(separablePool_rows+8)", poolArgs, poolOuts)
	p.Label("row")
}

// planesLeft reads how many planes there are.
func (p separable) planesLeft() {
	p.Field("separablePool_planes", poolArgs, poolPlanes)
	if !p.ARM64() {
		p.Op("MOVQ AX, left-8(SP)")
	}
}

// nextRow ends the loop over output rows, and nextPlane that over planes.
func (p separable) nextRow(line asm.Reg) {
	p.AddField("separablePool_pitch", poolArgs, line, poolFree)
	p.pick("ADDQ $poolRow__size, R10", "ADD $poolRow__size, R3")
	p.Down(poolOuts, "row")
}

func (p separable) nextPlane() {
	if p.ARM64() {
		p.Down(poolPlanes, "plane")
	} else {
		p.Ops("DECQ left-8(SP)", "JNZ plane")
	}
	p.Return()
}

// pick writes one of two instructions.
func (p separable) pick(amd64, arm64 string) {
	if p.ARM64() {
		p.Op("%s", arm64)
	} else {
		p.Op("%s", amd64)
	}
}

// down writes the reduction of the rows under each output row into a line: two vectors at a time on
// amd64 and four on arm64, then one.
func (p separable) down() {
	p.begin(fmt.Sprintf("pool%sDown", poolKind(p.largest)), "separablePool_in",
		"reduces the rows under each output row into a line.")
	p.Field("separablePool_step", poolArgs, downStep)
	p.planesLeft()
	p.Field("separablePool_src", poolArgs, downPlane)
	p.Field("separablePool_lines", poolArgs, downLine)
	p.AddField("separablePool_lead", poolArgs, downLine, poolFree)
	p.planes()
	p.Field("poolRow_at", poolOut, downFrom)
	p.AddTimes(downFrom, downPlane, 1)
	p.AddField("separablePool_lead", poolArgs, downFrom, poolFree)
	p.Copy(downLine, downTo)
	p.Field("separablePool_in", poolArgs, poolLeft)
	p.IfLess(poolLeft, p.Lanes, "short")
	many := p.either(2, 4)
	p.Label("wide")
	p.IfLess(poolLeft, many*p.Lanes, "narrow")
	p.downVectors("wide", many)
	p.Label("narrow")
	p.IfZero(poolLeft, "next")
	p.UnlessLess(poolLeft, p.Lanes, "whole")
	p.back(pointer{downFrom, 4}, pointer{downTo, 4})
	p.Label("whole")
	p.downVectors("narrow", 1)
	p.Label("short")
	p.downShort()
	p.Label("next")
	p.nextRow(downLine)
	p.AddField("separablePool_plane", poolArgs, downPlane, poolFree)
	p.nextPlane()
}

// pointer is a register that points to columns, so many bytes apart.
type pointer struct {
	asm.Reg
	bytes int
}

// back moves pointers to where a vector begins whose last column is the last of the row.
func (p separable) back(pointers ...pointer) {
	if p.ARM64() {
		p.Op("SUB $%d, R11, R14", p.Lanes)
	}
	for _, r := range pointers {
		if p.ARM64() {
			p.AddTimes(r.Reg, poolFree, r.bytes)
		} else {
			p.Op("LEAQ -%d(%s)(DX*%d), %[2]s", p.Lanes*r.bytes, r.AMD64, r.bytes)
		}
	}
	p.Set(poolLeft, p.Lanes)
}

// downVectors reduces so many vectors of columns and goes to the loop again.
func (p separable) downVectors(name string, vectors int) {
	p.downTaps(name, vectors, func() {
		if p.ARM64() {
			p.Load(0, poolSees, consecutive(4, vectors)...)
		}
		for i, r := range p.results(vectors) {
			x := 4 + i
			if !p.ARM64() {
				x = 1
				p.Load(p.Size()*i, poolSees, x)
			}
			p.take(x, r)
		}
	})
	p.Store(0, downTo, p.results(vectors)...)
	p.Advance(downFrom, p.Size()*vectors)
	p.Advance(downTo, p.Size()*vectors)
	p.Retreat(poolLeft, p.Lanes*vectors)
	p.Jump(name)
}

// downTaps reduces what take reads of each row under a window.
func (p separable) downTaps(name string, vectors int, take func()) {
	p.empty(vectors)
	p.Copy(downFrom, poolSees)
	p.Field("poolRow_n", poolOut, downTaps)
	p.IfZero(downTaps, name+"Done")
	p.Label(name + "Load")
	take()
	p.AddTimes(poolSees, downStep, 1)
	p.Down(downTaps, name+"Load")
	p.Label(name + "Done")
	p.finish(vectors)
}

// downShort reduces the columns of a row shorter than a vector.
func (p separable) downShort() {
	if !p.ARM64() {
		p.downTaps("short", 0, func() {
			p.Op("VMASKMOVPS (R9), Y8, Y1")
			p.take(1, 0)
		})
		p.Ops("VBLENDVPS Y8, Y0, Y6, Y0", "VMOVUPS Y0, (R13)")
		return
	}
	p.IfZero(poolLeft, "next")
	p.downTaps("short", 0, func() {
		p.Op("FMOVS (R12), F4")
		p.take(4, 0)
	})
	p.Op("FMOVS F0, (R10)")
	p.Advance(downFrom, 4)
	p.Advance(downTo, 4)
	p.Retreat(poolLeft, 1)
	p.Jump("short")
}

// along writes the reduction of the columns of the lines, on arm64 two vectors at a time as long as
// there are two. With a stride of 2 the lanes of amd64 are in the order that is cheapest to get
// until they are stored.
func (p separable) along(stride int) {
	p.begin(fmt.Sprintf("pool%sAlongS%d", poolKind(p.largest), stride), "separablePool_cols",
		fmt.Sprintf("reduces the columns of the lines with a stride of %d.", stride))
	p.Field("separablePool_tap", poolArgs, alongTap)
	p.planesLeft()
	p.Field("separablePool_lines", poolArgs, alongLine)
	p.Field("separablePool_dst", poolArgs, alongOut)
	if !p.ARM64() {
		p.Ops("MOVQ (separablePool_dst+8)(BX), R8", "LEAQ (DI)(R8*4), R8")
	}
	p.planes()
	p.Copy(alongLine, alongFrom)
	p.Field("separablePool_cols", poolArgs, poolLeft)
	if !p.largest {
		p.Field("separablePool_columns", poolArgs, alongBy)
		p.Every("poolRow_divisor", poolOut, p.divisor())
	}
	if p.ARM64() {
		p.Label("wide")
		p.IfLess(poolLeft, 2*p.Lanes, "narrow")
		p.alongVectors(stride, "wide", 2)
		p.Jump("wide")
		p.Label("narrow")
		p.IfZero(poolLeft, "next")
	} else {
		p.Label("narrow")
	}
	p.lastAlong(stride)
	p.Label("whole")
	p.alongTaps(stride, "narrow", 1)
	p.IfLess(poolLeft, p.Lanes, "short")
	p.alongStore(stride, 1)
	if p.ARM64() {
		p.Jump("narrow")
	} else {
		p.Ops("JNZ narrow", "JMP next")
	}
	p.Label("short")
	p.alongShort()
	p.Label("next")
	p.nextRow(alongLine)
	p.nextPlane()
}

// lastAlong leads to a vector of which all columns are left, or none are before it; another one is
// moved back to the end of the row.
func (p separable) lastAlong(stride int) {
	p.UnlessLess(poolLeft, p.Lanes, "whole")
	if p.ARM64() {
		p.Field("separablePool_cols", poolArgs, poolFree)
		p.IfLess(poolFree, p.Lanes, "whole")
	} else {
		p.Op("CMPQ separablePool_cols(BX), $%d", p.Lanes)
		p.Op("JLT whole")
	}
	back := []pointer{{alongOut, 4}, {alongFrom, 4 * stride}}
	if !p.largest {
		back = append(back, pointer{alongBy, 4})
	}
	p.back(back...)
}

// alongVectors reduces what so many vectors of outputs see, and stores them.
func (p separable) alongVectors(stride int, name string, vectors int) {
	p.alongTaps(stride, name, vectors)
	p.alongStore(stride, vectors)
}

// alongStore stores results, and sets the flags by the columns left on amd64.
func (p separable) alongStore(stride, vectors int) {
	p.StoreNext(alongOut, p.results(vectors)...)
	p.Advance(alongFrom, p.Size()*stride*vectors)
	p.Retreat(poolLeft, p.Lanes*vectors)
}

// alongShort stores the columns of a row shorter than a vector: on amd64 as a vector, the next row
// over what is too much, since stores under masks take many times as long.
func (p separable) alongShort() {
	if p.ARM64() {
		neon{p.File}.part(0, "R1", "R11", "R12", "stored")
		p.Op("ADD R11<<2, R1")
		return
	}
	p.Ops("LEAQ 32(DI), AX", "CMPQ AX, R8", "JA end", "VMOVUPS Y0, (DI)",
		"LEAQ (DI)(DX*4), DI", "JMP next")
	p.Label("end")
	p.Ops("VMASKMOVPS Y0, Y8, (DI)", "LEAQ (DI)(DX*4), DI")
}

// alongTaps reduces what so many vectors of outputs see, and divides means.
func (p separable) alongTaps(stride int, name string, vectors int) {
	p.empty(vectors)
	p.Copy(alongFrom, poolSees)
	p.Field("separablePool_width", poolArgs, poolWidth)
	if stride == 1 {
		p.Label(name + "Tap")
		p.alongOne(vectors)
		p.AddTimes(poolSees, alongTap, 1)
		p.Down(poolWidth, name+"Tap")
	} else {
		p.Rounds(poolWidth, poolWidth, 2, name+"Last")
		p.Label(name + "Tap")
		p.alongPairs(vectors, true)
		p.Advance(poolSees, 8)
		p.Down(poolWidth, name+"Tap")
		p.Label(name + "Last")
		if p.ARM64() {
			p.Field("separablePool_width", poolArgs, poolWidth)
			p.Op("TBZ $0, R13, %sDone", name)
		} else {
			p.Op("TESTQ $1, separablePool_width(BX)")
			p.Op("JZ %sDone", name)
		}
		p.alongPairs(vectors, false)
		p.Label(name + "Done")
	}
	p.finish(vectors)
	if stride == 2 && !p.ARM64() {
		p.Op("VPERMPD $0xd8, Y0, Y0")
	}
	p.divide(vectors)
}

// alongOne takes the columns that the outputs see under a tap.
func (p separable) alongOne(vectors int) {
	first := p.either(1, 4)
	p.Load(0, poolSees, consecutive(first, vectors)...)
	for i, r := range p.results(vectors) {
		p.take(first+i, r)
	}
}

// alongPairs takes the even columns that the outputs see and, if so asked, then the odd ones.
func (p separable) alongPairs(vectors int, odd bool) {
	if !p.ARM64() {
		p.Op("VMOVUPS (R9), Y1")
		if !odd {
			p.Op("VSHUFPS $0x88, 32(R9), Y1, Y1")
			p.take(1, 0)
			return
		}
		p.Ops("VMOVUPS 32(R9), Y3", "VSHUFPS $0xdd, Y3, Y1, Y4", "VSHUFPS $0x88, Y3, Y1, Y1")
		p.takeBoth(1, 4, 0)
		return
	}
	for v := range vectors {
		p.Load(32*v, poolSees, 4+2*v, 5+2*v)
		p.Op("VUZP1 V%d.S4, V%d.S4, V%d.S4", 5+2*v, 4+2*v, 8+v)
		p.take(8+v, v)
		if odd {
			p.Op("VUZP2 V%d.S4, V%d.S4, V%d.S4", 5+2*v, 4+2*v, 10+v)
			p.take(10+v, v)
		}
	}
}

// divide divides means by what they are of.
func (p separable) divide(vectors int) {
	switch {
	case p.largest:
		return
	case p.ARM64():
		p.Load(0, alongBy, consecutive(4, vectors)...)
		for v := range vectors {
			p.Do(asm.Mul, 4+v, p.divisor(), 4+v)
			p.Do(asm.Div, v, v, 4+v)
		}
	default:
		p.Ops("VMULPS (R12), Y9, Y1", "VDIVPS Y1, Y0, Y0")
	}
	p.Advance(alongBy, p.Size()*vectors)
}

// consecutive are n numbers from the first on.
func consecutive(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}
