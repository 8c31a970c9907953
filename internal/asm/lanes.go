package asm

// LoadNext reads vectors that follow each other and moves the pointer behind them.
func (c Code) LoadNext(base Reg, to ...int) {
	switch {
	case c.ARM64() && len(to) == 1:
		c.Op("FMOVQ.P 16(%s), F%d", base.ARM64, to[0])
	case c.ARM64() && len(to) == 2:
		c.Op("FLDPQ.P 32(%s), (F%d, F%d)", base.ARM64, to[0], to[1])
	default:
		c.Load(0, base, to...)
		c.Advance(base, c.Size()*len(to))
	}
}

// StoreNext is the opposite of [Code.LoadNext].
func (c Code) StoreNext(base Reg, from ...int) {
	switch {
	case c.ARM64() && len(from) == 1:
		c.Op("FMOVQ.P F%d, 16(%s)", from[0], base.ARM64)
	case c.ARM64() && len(from) == 2:
		c.Op("FSTPQ.P (F%d, F%d), 32(%s)", from[0], from[1], base.ARM64)
	default:
		c.Store(0, base, from...)
		c.Advance(base, c.Size()*len(from))
	}
}

// SplitBegins reads what [Code.Split] takes from registers, into a and b.
func (c Code) SplitBegins(a, b int) {
	if c.Wide() {
		c.Op("VMOVUPS ·evenLanes<>(SB), Z%d", a)
		c.Op("VPTERNLOGD $0xff, Z%d, Z%[1]d, Z%[1]d", b)
		c.Op("VPSUBD Z%d, Z%d, Z%[1]d", b, a)
	}
}

// Split sorts the numbers of two vectors that follow each other: the even ones into x and the odd
// ones into odd; a and b are of [Code.SplitBegins].
func (c Code) Split(x, y, odd, a, b int) {
	switch {
	case c.ARM64():
		c.Op("VUZP2 V%d.S4, V%d.S4, V%d.S4", y, x, odd)
		c.Op("VUZP1 V%d.S4, V%d.S4, V%[2]d.S4", y, x)
	case c.Wide():
		c.Op("VMOVAPS Z%d, Z%d", x, odd)
		c.Op("VPERMT2PS Z%d, Z%d, Z%d", y, a, x)
		c.Op("VPERMT2PS Z%d, Z%d, Z%d", y, b, odd)
	default:
		c.Op("VSHUFPS $0xdd, Y%d, Y%d, Y%d", y, x, odd)
		c.Op("VSHUFPS $0x88, Y%d, Y%d, Y%[2]d", y, x)
		c.Op("VPERMPD $0xd8, Y%d, Y%[1]d", x)
		c.Op("VPERMPD $0xd8, Y%d, Y%[1]d", odd)
	}
}

// WeaveBegins reads what [Code.Weave] takes from registers, into a and b.
func (c Code) WeaveBegins(a, b int) {
	if c.Wide() {
		c.Op("VMOVUPS ·pairLanes<>(SB), Z%d", a)
		c.Op("VMOVUPS ·pairLanes<>+64(SB), Z%d", b)
	}
}

// Weave is the opposite of [Code.Split]: the first half of x[0], y[0], x[1], ... goes to x, the
// second to another register; a and b are of [Code.WeaveBegins].
func (c Code) Weave(x, y, second, a, b int) {
	switch {
	case c.ARM64():
		c.Op("VZIP2 V%d.S4, V%d.S4, V%d.S4", y, x, second)
		c.Op("VZIP1 V%d.S4, V%d.S4, V%[2]d.S4", y, x)
	case c.Wide():
		c.Op("VMOVAPS Z%d, Z%d", x, second)
		c.Op("VPERMT2PS Z%d, Z%d, Z%d", y, a, x)
		c.Op("VPERMT2PS Z%d, Z%d, Z%d", y, b, second)
	default:
		c.Op("VUNPCKLPS Y%d, Y%d, Y%d", y, x, second)
		c.Op("VUNPCKHPS Y%d, Y%d, Y%d", y, x, a)
		c.Op("VPERM2F128 $0x20, Y%d, Y%d, Y%d", a, second, x)
		c.Op("VPERM2F128 $0x31, Y%d, Y%d, Y%[2]d", a, second)
	}
}

// Max sets d, which is none of them, to the larger of x and y, and to NaN where either is; a and b
// are lost.
func (c Code) Max(d, x, y, a, b int) {
	switch {
	case c.ARM64():
		c.Vec("FMAX", d, x, y)
	case c.Wide():
		c.Op("VMAXPS Z%d, Z%d, Z%d", y, x, d)
		c.Op("VCMPPS $3, Z%d, Z%d, K1", y, x)
		c.Op("VADDPS Z%d, Z%d, K1, Z%d", y, x, d)
	default:
		c.Op("VMAXPS Y%d, Y%d, Y%d", y, x, d)
		c.Op("VCMPPS $3, Y%d, Y%d, Y%d", y, x, a)
		c.Op("VADDPS Y%d, Y%d, Y%d", y, x, b)
		c.Op("VBLENDVPS Y%d, Y%d, Y%d, Y%[3]d", a, b, d)
	}
}
