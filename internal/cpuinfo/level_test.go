package cpuinfo

import "testing"

func TestDisableTakesLevelsAwayAndGivesThemBack(t *testing.T) {
	before := Current()
	if before != Supported() {
		t.Fatalf("Current() = %v before any Disable, want %v", before, Supported())
	}
	undo512 := Disable(AVX512)
	if HasAVX512() {
		t.Error("HasAVX512() after Disable(AVX512)")
	}
	if want := min(AVX2, Supported()); Current() != want {
		t.Errorf("Current() = %v after Disable(AVX512), want %v", Current(), want)
	}
	undo2 := Disable(AVX2)
	if HasAVX2FMA() || HasAVX512() || HasAVX512VNNI() || HasAVX512BF16() {
		t.Error("a feature is left after Disable(AVX2)")
	}
	undo512()
	if Current() != Baseline {
		t.Errorf("Current() = %v with AVX2 still disabled, want %v", Current(), Baseline)
	}
	undo512()
	undo2()
	if Current() != before {
		t.Errorf("Current() = %v after every undo, want %v", Current(), before)
	}
}

func TestDisableClampsItsLevel(t *testing.T) {
	for _, l := range []Level{-7, Baseline, AVX512 + 9} {
		undo := Disable(l)
		if HasAVX512() {
			t.Errorf("HasAVX512() after Disable(%d)", l)
		}
		undo()
	}
	if Current() != Supported() {
		t.Errorf("Current() = %v after every undo, want %v", Current(), Supported())
	}
}

func TestLevelString(t *testing.T) {
	for l, want := range map[Level]string{Baseline: "baseline", AVX2: "avx2", AVX512: "avx512",
		9: "unknown"} {
		if got := l.String(); got != want {
			t.Errorf("Level(%d).String() = %q, want %q", l, got, want)
		}
	}
}
