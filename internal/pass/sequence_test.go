package pass_test

import "testing"

func TestSequence(t *testing.T) {
	check(t, true, []rewrite{
		{"built and read", `input %x: float32[N]
			input %y: float32[N]
			const %one: int64[] = {1}
			const %back: int64[] = {-1}
			%none = SequenceEmpty@17 ()
			%a = SequenceInsert@17 (%none, %x)
			%b = SequenceInsert@17 (%a, %y)
			%c = SequenceInsert@17 (%b, %x, %one)
			%d = SequenceErase@17 (%c, %back)
			%l: int64[] = SequenceLength@17 (%d)
			%v: float32[?] = SequenceAt@17 (%c, %back)
			%z: float32[?] = Neg@17 (%v)
			%w: float32[?] = ConcatFromSequence@17 (%d) {axis=0}
			output %z
			output %w
			output %l`, "z = Neg (y)\nw = Concat (x, x) {axis=0}"},
		{"stacked", `input %x: float32[2,3]
			input %y: float32[2,3]
			%s = SequenceConstruct@17 (%x, %y)
			%z: float32[2,2,3] = ConcatFromSequence@17 (%s) {axis=1, new_axis=1}
			output %z`, "z_1 = Unsqueeze (x, int64[1] {1})\nz_2 = Unsqueeze (y, int64[1] {1})\nz " +
			"= Concat (z_1, z_2) {axis=1}"},
		{"split and read", `input %x: float32[5,3]
			const %two: int64[] = {2}
			const %one: int64[] = {1}
			%s = SplitToSequence@17 (%x, %two)
			%v: float32[2,3] = SequenceAt@17 (%s, %one)
			%w: float32[1,3] = SequenceAt@17 (%s, %two)
			%z: float32[2,3] = Add@17 (%v, %w)
			output %z`, "s_0, s_1, s_2 = Split (x, s_lengths) {axis=0}\nz = Add (s_1, s_2)"},
		{"unbound", `input %x: float32[2,3]
			const %one: int64[] = {1}
			%s = SplitToSequence@17 (%x) {axis=0, keepdims=0}
			%v: float32[3] = SequenceAt@17 (%s, %one)
			%z: float32[3] = Neg@17 (%v)
			output %z`, "s_0, s_1 = Split (x, s_lengths) {axis=0}\ns_3 = Squeeze (s_1, int64[1] " +
			"{0})\nz = Neg (s_3)"},
		{"first and last position", `input %x: float32[2,3]
			input %y: float32[2,3]
			const %first: int64[] = {-2}
			const %end: int64[] = {2}
			%s = SequenceConstruct@17 (%x, %y)
			const %zero: int64[] = {0}
			%o: float32[2,3] = SequenceAt@17 (%s, %zero)
			%p = SequenceInsert@17 (%s, %o, %zero)
			%a: float32[2,3] = SequenceAt@17 (%s, %first)
			%t = SequenceInsert@17 (%s, %a, %end)
			%b: float32[2,3] = SequenceAt@17 (%t, %end)
			%c: float32[2,3] = SequenceAt@17 (%p, %end)
			%d: float32[2,3] = Sub@17 (%a, %b)
			%z: float32[2,3] = Mul@17 (%d, %c)
			output %z`, "d = Sub (x, x)\nz = Mul (d, y)"},
		{"position not known", `input %x: float32[2,3]
			input %i: int64[]
			%s = SplitToSequence@17 (%x)
			%v: float32[1,3] = SequenceAt@17 (%s, %i)
			output %v`, "s: sequence(float32[1,3]) = SplitToSequence (x)\nv = SequenceAt (s, i)"},
		{"position outside", `input %x: float32[2,3]
			%s = SequenceConstruct@17 (%x)
			%e = SequenceErase@17 (%s)
			%l: int64[] = SequenceLength@17 (%e)
			%z: int64[] = Neg@17 (%l)
			output %z`, "z = Neg (int64[] {0})"},
		{"optionals", `input %x: float32[N]
			%o = Optional@17 (%x)
			%none = Optional@17 () {type=type float32[...]}
			%h: bool[] = OptionalHasElement@17 (%o)
			%g: bool[] = OptionalHasElement@17 (%none)
			%v: float32[N] = OptionalGetElement@17 (%o)
			%z: float32[N] = Neg@17 (%v)
			output %z
			output %h
			output %g`, "z = Neg (x)"},
		{"a sequence goes out", `input %x: float32[4]
			%s = SplitToSequence@17 (%x)
			%l: int64[] = SequenceLength@17 (%s)
			output %s
			output %l`, "s: sequence(float32[1]) = SplitToSequence (x)\nl = SequenceLength (s)"},
	}, "sequence", "dead")
}
