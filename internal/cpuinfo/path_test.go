package cpuinfo

import (
	"errors"
	"strings"
	"testing"
)

// TestLimit holds what each path may use, and that limits nest.
func TestLimit(t *testing.T) {
	before := CurrentPath()
	if before != SupportedPath() {
		t.Fatalf("CurrentPath() = %v before any Limit, want %v", before, SupportedPath())
	}
	for most := PathPlain; most <= PathAMX; most++ {
		undo := Limit(most)
		p := PathPlain
		for _, of := range Paths() {
			if of <= most && of <= SupportedPath() {
				p = of
			}
		}
		if CurrentPath() != p {
			t.Errorf("CurrentPath() = %v after Limit(%v), want %v", CurrentPath(), most, p)
		}
		got := [9]bool{HasNEON(), HasDotProd(), HasI8MM(), HasBF16(), HasAVX2FMA(), HasAVX512(),
			HasAVX512VNNI(), HasAVX512BF16(), HasTiles()}
		if want := [9]bool{
			p >= PathNEON && p < PathAVX2,
			p >= PathDotProd && p < PathAVX2,
			p >= PathI8MM && p < PathAVX2,
			p == PathBF16,
			p >= PathAVX2,
			p >= PathAVX512,
			p >= PathAVX512VNNI,
			p >= PathAVX512BF16,
			p >= PathAMX,
		}; got != want {
			t.Errorf("%v: may use %v, want %v", p, got, want)
		}
		want := Baseline
		if p >= PathAVX2 {
			want = Level(min(int(p-PathAVX2)+1, 2))
		}
		if Current() != want {
			t.Errorf("%v: Current() = %v, want %v", p, Current(), want)
		}
		lower := Limit(PathPlain)
		undo()
		if CurrentPath() != PathPlain {
			t.Errorf("CurrentPath() = %v with plain still the limit", CurrentPath())
		}
		lower()
		if CurrentPath() != before {
			t.Errorf("CurrentPath() = %v after every undo, want %v", CurrentPath(), before)
		}
	}
}

func TestEnvironmentLimitsThePath(t *testing.T) {
	for _, p := range Paths() {
		for _, most := range Paths() {
			if got, err := limited(p, most.String()); err != nil || got != min(p, most) {
				t.Errorf("limited(%v, %q) = %v, %v; want %v", p, most, got, err, min(p, most))
			}
		}
		if got, err := limited(p, ""); err != nil || got != p {
			t.Errorf("limited(%v) without a name = %v, %v", p, got, err)
		}
		got, err := limited(p, "AVX2")
		if err == nil || got != p || !strings.Contains(err.Error(), PathVariable) ||
			!strings.Contains(err.Error(), Paths()[len(Paths())-1].String()) {
			t.Errorf(
				"limited(%v, AVX2) = %v, %v; want an error that names the variable and the choices",
				p, got, err)
		}
	}
}

// TestEnvironmentIsValid keeps a run of the tests on one path from being one on another by a
// misspelling.
func TestEnvironmentIsValid(t *testing.T) {
	if err := EnvironmentError(); err != nil {
		t.Error(err)
	}
}

func TestPathString(t *testing.T) {
	if got := Path(17).String() + Path(-1).String(); got != "unknownunknown" {
		t.Errorf("names of no path: %q", got)
	}
}

// TestTilesOnAsking holds that a system is asked once, by what wants tiles and by nothing else, and
// that a refusal takes them away until the undo.
func TestTilesOnAsking(t *testing.T) {
	for _, refusal := range []error{nil, errors.New("refused")} {
		asked := 0
		undo := TilesOnAsking(func() error { asked++; return refusal })
		if !TilesDefined() || asked != 0 || HasTiles() {
			t.Errorf("before: %v, asked %d times, own %v", TilesDefined(), asked, HasTiles())
		}
		given := refusal == nil
		for range 2 {
			if WantDefinedTiles() != given || TilesDefined() != given {
				t.Errorf("refusal %v: %v", refusal, TilesDefined())
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		undo()
		if TilesDefined() || WantDefinedTiles() {
			t.Error("tiles after the undo")
		}
	}
	defer TilesByDefinition()()
	if !WantDefinedTiles() {
		t.Error("a system that was asked before refuses still")
	}
}
