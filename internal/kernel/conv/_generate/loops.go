package main

import "github.com/weirgpu/weir/internal/asm"

// saveLoops writes the kernels that go over slices once, for either architecture.
func saveLoops(folder string) error {
	return asm.SaveLoops(generator, "conv", folder, "loops", loops())
}

// loops are their descriptions.
func loops() []asm.Loop {
	pair := []asm.Slice{{Name: "dst", Each: 1}, {Name: "src", Each: 1}}
	halves := []asm.Slice{{Name: "even", Each: 1}, {Name: "odd", Each: 1}}
	return []asm.Loop{
		{
			Name: "maxRow", Does: "sets dst to the larger of dst and src, NaN if either is",
			Slices: pair, Vectors: 2, Round: reduceRound(asm.Code.Max),
		},
		{
			Name: "addRow", Does: "adds src to dst", Slices: pair, Vectors: 2,
			Round: reduceRound(func(c asm.Code, d, x, y, _, _ int) { c.Do(asm.Add, d, x, y) }),
		},
		{
			Name: "splitRow", Does: "writes the even and the odd ones of src to even and odd",
			Slices: append(halves[:2:2], asm.Slice{Name: "src", Each: 2}),
			Begin:  func(c asm.Code) { c.SplitBegins(4, 5) },
			Round: func(c asm.Code, at []asm.Reg) {
				c.LoadNext(at[2], 0, 1)
				c.Split(0, 1, 2, 4, 5)
				c.StoreNext(at[0], 0)
				c.StoreNext(at[1], 2)
			},
		},
		{
			Name: "weaveRow", Does: "writes even[0], odd[0], even[1], odd[1] and so on to dst",
			Slices: append(halves[:2:2], asm.Slice{Name: "dst", Each: 2}),
			Begin:  func(c asm.Code) { c.WeaveBegins(4, 5) },
			Round: func(c asm.Code, at []asm.Reg) {
				c.LoadNext(at[0], 0)
				c.LoadNext(at[1], 1)
				c.Weave(0, 1, 2, 4, 5)
				c.StoreNext(at[2], 0, 2)
			},
		},
	}
}

// reduceRound reduces what is at a row and at another into the first.
func reduceRound(reduce func(c asm.Code, d, x, y, a, b int)) func(asm.Code, []asm.Reg) {
	return func(c asm.Code, at []asm.Reg) {
		x, y, d := []int{0}, []int{2}, []int{4}
		if c.ARM64() {
			x, y, d = []int{0, 1}, []int{2, 3}, []int{4, 5}
		}
		c.Load(0, at[0], x...)
		c.LoadNext(at[1], y...)
		for i := range x {
			reduce(c, d[i], x[i], y[i], 6, 7)
		}
		c.StoreNext(at[0], d...)
	}
}
