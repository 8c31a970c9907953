package pass_test

import (
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	check(t, true, []rewrite{
		{"constant expression", `input %x: float32[N]
			const %a: float32[] = {2}
			const %b: float32[] = {3}
			%c: float32[] = Add@17 (%a, %b)
			%y: float32[N] = Mul@17 (%x, %c)
			output %y`, `y = Mul (x, float32[] {5})`},
		{"constant output keeps its name", `const %a: float32[] = {2}
			%y: float32[] = Neg@17 (%a)
			output %y`, ``},
		{"known shape", `input %x: float32[2,3]
			%s: int64[2] = Shape@17 (%x)
			output %s`, ``},
		{"shape arithmetic on symbols", `input %x: float32[N,3]
			const %one: int64[] = {1}
			const %zero: int64[1] = {0}
			%s: int64[2] = Shape@17 (%x)
			%d: int64[] = Gather@17 (%s, %one) {axis=0}
			%u: int64[1] = Unsqueeze@17 (%d, %zero)
			const %m: int64[1] = {-1}
			%t: int64[2] = Concat@17 (%m, %u) {axis=0}
			%y: float32[?,?] = Reshape@17 (%x, %t)
			output %y`, `y = Reshape (x, t)`},
		{"shape of a fixed shape without elements", `input %x: float32[2,2]
			%e: float32[2,2] = EyeLike@17 (%x)
			%y: float32[2,2] = Add@17 (%x, %e)
			output %y`, `y = Add (x, e)`},
		{"some outputs only", `input %x: float32[2,N]
			const %sizes: int64[2] = {1, 1}
			%s: int64[2] = Shape@17 (%x)
			%a: int64[1], %b: int64[1] = Split@17 (%s, %sizes)
			%y: int64[1] = Add@17 (%a, %b)
			output %y
			output %a`, "s = Shape (x)\na_1, b = Split (s, sizes)\ny = Add (int64[1] {2}, b)"},
	}, "fold")
}

func TestFoldLeavesWhatFails(t *testing.T) {
	g := parse(t, head+`input %x: int64[N]
		const %a: int64[1] = {1}
		const %b: int64[1] = {7}
		%g: int64[1] = Gather@17 (%a, %b)
		%y: int64[?] = Concat@17 (%x, %g) {axis=0}
		output %y
		}`)
	if r := optimise(t, g, only("fold")); r.Changes() > 0 || len(g.Nodes) != 2 {
		t.Errorf("an index out of range was folded:\n%v", g)
	}
}

func TestFoldIsBounded(t *testing.T) {
	g := parse(t, head+`const %s: int64[2] = {8192, 4096}
		%y: float32[8192,4096] = ConstantOfShape@17 (%s)
		const %t: int64[1] = {1000}
		%z: float32[1000] = ConstantOfShape@17 (%t)
		output %y
		output %z
		}`)
	optimise(t, g, only("fold"))
	if got := short(g); got != "y = ConstantOfShape (s)" {
		t.Errorf("128 MiB were folded, or 4 kB were not:\n%s", got)
	}
}

func TestInlineBranch(t *testing.T) {
	branches := `{then_branch=graph "t" captures 2 {
			input %p: float32[N]
			input %q: float32[N]
			%n: float32[N] = Neg@17 (%p)
			%o: float32[N] = Add@17 (%n, %q)
			output %o
		}, else_branch=graph "e" captures 2 {
			input %p: float32[N]
			input %q: float32[N]
			output %q
		}}`
	tests := []rewrite{
		{"then", `input %x: float32[N]
			const %c: bool[] = {true}
			%n: float32[N] = Relu@17 (%x)
			%y: float32[N] = If@17 (%c | %x, %n) ` + branches + `
			output %y`, "n = Relu (x)\nn_1 = Neg (x)\ny = Add (n_1, n)"},
		{"else passes a capture through", `input %x: float32[N]
			const %c: bool[] = {false}
			%n: float32[N] = Relu@17 (%x)
			%y: float32[N] = If@17 (%c | %x, %n) ` + branches + `
			output %y`, "y = Relu (x)"},
		{"an input cannot take the output's name", `input %x: float32[N]
			const %c: bool[] = {false}
			%y: float32[N] = If@17 (%c | %x, %x) ` + branches + `
			output %y`, "y = Identity (x)"},
		{"nested, with a condition that folds inside", `input %x: float32[N]
			const %c: bool[] = {true}
			%y: float32[N] = If@17 (%c | %x) {then_branch=graph "t" captures 1 {
				input %p: float32[N]
				const %two: int64[] = {2}
				const %one: int64[] = {1}
				%e: bool[] = Greater@17 (%two, %one)
				%o: float32[N] = If@17 (%e | %p) {then_branch=graph "tt" captures 1 {
					input %p: float32[N]
					%e: float32[N] = Neg@17 (%p)
					output %e
				}, else_branch=graph "te" captures 1 { input %p: float32[N] output %p }}
				output %o
			}, else_branch=graph "e" captures 1 { input %p: float32[N] output %p }}
			output %y`, "y = Neg (x)"},
	}
	check(t, true, tests, "fold")
}

func TestInlinedBranchTellsTypes(t *testing.T) {
	g := parse(t, head+`input %x: float32[2,3]
		const %c: bool[] = {true}
		%y: float32[...] = If@17 (%c | %x) {then_branch=graph "t" captures 1 {
			input %p
			%o = Transpose@17 (%p)
			output %o
		}, else_branch=graph "e" captures 1 {
			input %p
			const %a: int64[1] = {0}
			%o = ReduceMax@17 (%p) {axes=[0], keepdims=0}
			output %o
		}}
		%s = Shape@17 (%y)
		output %s
		}`)
	optimise(t, g, only("fold", "dead"))
	if len(g.Nodes) > 0 || g.Outputs[0].Const() == nil {
		t.Errorf("the shape of the branch's result was not folded:\n%v", g)
	}
}

func TestCapture(t *testing.T) {
	g := parse(t, head+`input %x: float32[N]
		input %c: bool[]
		const %k: float32[2] = {1, 2}
		%unused: float32[N] = Exp@17 (%x)
		%y: float32[?] = If@17 (%c | %x, %k, %unused, %x) {then_branch=graph "t" captures 4 {
			input %a: float32[N]
			input %b: float32[2]
			input %u: float32[N]
			input %a2: float32[N]
			%o: float32[?] = Add@17 (%a, %a2)
			output %o
		}, else_branch=graph "e" captures 4 {
			input %a: float32[N]
			input %b: float32[2]
			input %u: float32[N]
			input %a2: float32[N]
			%o: float32[?] = Concat@17 (%a, %b) {axis=0}
			output %o
		}}
		output %y
		}`)
	before := g.Clone()
	optimise(t, g, only("capture"))
	want := "y = If (c | x) {then_branch=graph \"t\" captures 1 {\no = Add (a, a)\no = Concat " +
		"(a, b) {axis=0}"
	if got := short(g); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	equivalent(t, before, g, true)
}

func TestDead(t *testing.T) {
	check(t, true, []rewrite{
		{"a chain", `input %x: float32[N]
			%a: float32[N] = Exp@17 (%x)
			%b: float32[N] = Neg@17 (%a)
			%y: float32[N] = Relu@17 (%x)
			output %y`, "y = Relu (x)"},
		{"one output of two is read", `input %x: float32[4]
			%a: float32[2], %b: float32[2] = Split@13 (%x)
			output %b`, "a, b = Split (x)"},
	}, "dead")
}

func TestIdentity(t *testing.T) {
	line := func(s string) string {
		return "input %x: float32[N,3]\n" + strings.ReplaceAll(s, ";", "\n") +
			"\n%z: float32[N,3] = Relu@17 (%y)\noutput %z"
	}
	gone := "z = Relu (x)"
	check(t, true, []rewrite{
		{"Identity", line(`%y: float32[N,3] = Identity@17 (%x)`), gone},
		{"Dropout", line(`%y: float32[N,3] = Dropout@17 (%x)`), gone},
		{"Cast to the same", line(`%y: float32[N,3] = Cast@17 (%x) {to=1}`), gone},
		{"Transpose", line(`%y: float32[N,3] = Transpose@17 (%x) {perm=[0, 1]}`), gone},
		{"Reshape", line(`const %s: int64[2] = {0, 3};%y: float32[N,3] = Reshape@17 (%x, %s)`),
			gone},
		{"Expand", line(`const %s: int64[2] = {1, 3};%y: float32[N,3] = Expand@17 (%x, %s)`), gone},
		{"Slice", line(`const %s: int64[1] = {0};const %e: int64[1] = {9223372036854775807};%y: float32[N,3] = Slice@17 (%x, %s, %e)`), gone},
		{"Pad", line(`const %p: int64[4] = {0, 0, 0, 0};%y: float32[N,3] = Pad@17 (%x, %p)`), gone},
		{"Concat of one", line(`%y: float32[N,3] = Concat@17 (%x) {axis=1}`), gone},
		{"Concat with nothing",
			line(`const %e: float32[0,3] = {};%y: float32[N,3] = Concat@17 (%e, %x) {axis=0}`),
			gone},
		{"times one", line(`const %o: float32[] = {1};%y: float32[N,3] = Mul@17 (%o, %x)`), gone},
		{"by one", line(`const %o: float32[3] = {1, 1, 1};%y: float32[N,3] = Div@17 (%x, %o)`),
			gone},
		{"to the power of one",
			line(`const %o: float32[] = {1};%y: float32[N,3] = Pow@17 (%x, %o)`), gone},
		{"plus minus zero", line(`const %o: float32[] = {-0};%y: float32[N,3] = Add@17 (%x, %o)`),
			gone},
		{"minus zero", line(`const %o: float32[] = {0};%y: float32[N,3] = Sub@17 (%x, %o)`), gone},
		{"plus zero is not exact",
			line(`const %o: float32[] = {0};%y: float32[N,3] = Add@17 (%x, %o)`),
			"y = Add (x, float32[] {0})\nz = Relu (y)"},
		{"one over x", line(`const %o: float32[] = {1};%y: float32[N,3] = Div@17 (%o, %x)`),
			"y = Div (float32[] {1}, x)\nz = Relu (y)"},
		{"reversal", line(`const %s: int64[1] = {-1};const %e: int64[1] = {-9223372036854775807};const %a: int64[1] = {1};%y: float32[N,3] = Slice@17 (%x, %s, %e, %a, %s)`),
			"y = Slice (x, int64[1] {-1}, int64[1] {-9223372036854775807}, int64[1] {1}, " +
				"int64[1] {-1})\nz = Relu (y)"},
		{"broadcasting one is no identity", `input %x: float32[N,3]
			const %o: float32[2,1,1] = {1, 1}
			%y: float32[2,N,3] = Mul@17 (%x, %o)
			output %y`, "y = Mul (x, o)"},
		{"from input to output stays",
			"input %x: float32[N]\n%y: float32[N] = Identity@17 (%x)\noutput %y",
			"y = Identity (x)"},
		{"the output's name is kept", "input %x: float32[N]\n%a: float32[N] = Neg@17 (%x)\n%y: " +
			"float32[N] = Identity@17 (%a)\noutput %y",
			"y = Neg (x)"},
		{"integer plus zero", `input %x: int64[N]
			const %o: int64[] = {0}
			%y: int64[N] = Add@17 (%o, %x)
			%z: int64[N] = Neg@17 (%y)
			output %z`, "z = Neg (x)"},
		{"Concat drops the empty operand", `input %x: float32[N,3]
			const %e: float32[0,3] = {}
			%y: float32[?,3] = Concat@17 (%x, %e, %x) {axis=0}
			output %y`, "y = Concat (x, x) {axis=0}"},
	}, "identity")
}

func TestView(t *testing.T) {
	check(t, true, []rewrite{
		{"there and back", `input %x: float32[N,3]
			const %a: int64[1] = {1}
			%u: float32[N,1,3] = Unsqueeze@17 (%x, %a)
			%s: float32[N,3] = Squeeze@17 (%u, %a)
			%y: float32[N,3] = Relu@17 (%s)
			output %y`, "y = Relu (x)"},
		{"two steps to a fixed shape", `input %x: float32[2,3,4]
			const %a: int64[2] = {6, 4}
			%r: float32[6,4] = Reshape@17 (%x, %a)
			%y: float32[1,24] = Flatten@17 (%r) {axis=0}
			output %y`, "y = Reshape (x, y_shape)"},
		{"transposes", `input %x: float32[N,3,4]
			%a: float32[3,N,4] = Transpose@17 (%x) {perm=[1, 0, 2]}
			%y: float32[4,N,3] = Transpose@17 (%a)
			output %y`, "y = Transpose (x) {perm=[2, 0, 1]}"},
		{"the inner one has another reader", `input %x: float32[N,3,4]
			%a: float32[3,N,4] = Transpose@17 (%x) {perm=[1, 0, 2]}
			%y: float32[4,N,3] = Transpose@17 (%a)
			output %y
			output %a`, "a = Transpose (x) {perm=[1, 0, 2]}\ny = Transpose (x) {perm=[2, 0, 1]}"},
	}, "view")
	check(t, true, []rewrite{
		{"transposes that cancel", `input %x: float32[N,3]
			%a: float32[3,N] = Transpose@17 (%x)
			%b: float32[N,3] = Transpose@17 (%a)
			%y: float32[N,3] = Exp@17 (%b)
			output %y`, "y = Exp (x)"},
	}, "view", "identity")
}

func TestCSE(t *testing.T) {
	check(t, true, []rewrite{
		{"equal nodes", `input %x: float32[N]
			%a: float32[N] = Exp@17 "one" (%x)
			%b: float32[N] = Exp@17 "two" (%x)
			%y: float32[N] = Mul@17 (%a, %b)
			output %y`, "a = Exp (x)\ny = Mul (a, a)"},
		{"equal constants, operands exchanged", `input %x: float32[N]
			const %k: float32[] = {2}
			const %l: float32[] = {2}
			%a: float32[N] = Add@17 (%x, %k)
			%b: float32[N] = Add@17 (%l, %x)
			%y: float32[N] = Sub@17 (%a, %b)
			output %y`, "a = Add (x, float32[] {2})\ny = Sub (a, a)"},
		{"a constant that is an output stays", `input %x: float32[N]
			const %k: float32[] = {2}
			const %l: float32[] = {2}
			%a: float32[N] = Add@17 (%x, %k)
			%y: float32[N] = Sub@17 (%a, %l)
			output %y
			output %l`, "a = Add (x, float32[] {2})\ny = Sub (a, float32[] {2})"},
		{"attributes tell apart", `input %x: float32[N]
			%a: float32[N] = Elu@17 (%x) {alpha=1.0}
			%b: float32[N] = Elu@17 (%x) {alpha=2.0}
			%y: float32[N] = Mul@17 (%a, %b)
			output %y`, "a = Elu (x) {alpha=1.0}\nb = Elu (x) {alpha=2.0}\ny = Mul (a, b)"},
		{"order matters", `input %x: float32[N]
			input %z: float32[N]
			%a: float32[N] = Sub@17 (%x, %z)
			%b: float32[N] = Sub@17 (%z, %x)
			%y: float32[N] = Mul@17 (%a, %b)
			output %y`, "a = Sub (x, z)\nb = Sub (z, x)\ny = Mul (a, b)"},
		{"zeros of two signs", `input %x: float32[N]
			const %p: float32[] = {0}
			const %n: float32[] = {-0}
			%a: float32[N] = Add@17 (%x, %p)
			%b: float32[N] = Add@17 (%x, %n)
			%y: float32[N] = Mul@17 (%a, %b)
			output %y`, "a = Add (x, float32[] {0})\nb = Add (x, float32[] {-0})\ny = Mul (a, b)"},
		{"two outputs that are equal stay two", `input %x: float32[N]
			%a: float32[N] = Exp@17 (%x)
			%b: float32[N] = Exp@17 (%x)
			output %a
			output %b`, "a = Exp (x)\nb = Exp (x)"},
		{"an output takes over", `input %x: float32[N]
			%a: float32[N] = Exp@17 (%x)
			%b: float32[N] = Exp@17 (%x)
			%c: float32[N] = Neg@17 (%a)
			output %b
			output %c`, "b = Exp (x)\nc = Neg (b)"},
	}, "cse")
}
