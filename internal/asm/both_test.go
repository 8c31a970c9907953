package asm

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Families of kernels that are not described once for both architectures, and why.
var (
	// twice are those that both have, in descriptions of their own.
	twice = map[string]string{
		"copyTaps": "amd64 loads and stores under masks, arm64 whole vectors over each other",
		"halvedPlanes": "amd64 takes a vector of columns under masks down a plane, arm64 strips " +
			"of up to four, the last over the one before",
		"smallPlanes": "as halvedPlanes",
		"winogradIn":  "arm64 computes columns again for each two rows, amd64 stores them",
		"winogradOut": "arm64 interleaves columns as it stores them, amd64 in registers",
		"bytes":       "amd64 multiplies by words of up to twelve rows, arm64 by lanes of three",
	}
	// missing are those that one architecture lacks.
	missing = map[string]string{
		"tilesAMX": "arm64 has no registers of so many words without SME, which is another design",
		"finish":   "the same: it is the epilogue of results of tilesAMX",
		"joinRows": "the same: it packs rows for tilesAMX", "peakAMX": "the same",
		"peakAMXBytes": "the same",
		"halfBlocks":   "the same", "halfUpper": "the same", "halfWholes": "the same",
		"halfTurns": "the same", "halfFinishRows": "around tiles", "spread": "the same",
		"joinPlanes": "the same", "windows16Max": "the same", "windows16Sums": "the same",
		"windows16Three": "the same", "tiledPixels": "the same",
		// of amd64
		"copyPart": "arm64 packs by vec.Transpose and runtime.memmove", "gemm.copyRows": "the same",
		"gemm.transpose": "the same",
		"join":           "products of bfloat16 without BFMMLA are plain Go on arm64",
		"joinAlong":      "the same",
		"widenSigned":    "arm64 widens bytes as it multiplies", "widenUnsigned": "the same",
		"peak": "what benchmarks compare with, which none does on arm64",

		"copyEven": "arm64 gathers all taps at once", "copyLanes": "the same",
		"copyMasked": "the same", "copyPair": "the same", "copyThird": "the same",
		"padRows":              "arm64 has no masked loads",
		"winogradWeights":      "in doubles, of which a vector of arm64 holds two: plain Go",
		"poolMax":              "arm64 reduces the rows of windows first, then the columns",
		"poolMean":             "the same",
		"storeRuns":            "of a few floats: runtime.memmove",
		"depthwiseBytes":       "pixels of bytes are chosen with VNNI alone",
		"depthwiseThree":       "the same",
		"depthwiseThreeSigned": "the same", "maxBytes": "the same", "pixelTile": "the same",

		"floats": "arm64 widens the weights of any number of rows", "quantise": "plain Go on arm64",

		"addBlocksInt8": "masks of AVX-512", "addBlocksUint8": "the same",
		"vec.copyRows": "the same", "requantizeFloatRows": "the same", "requantizeRows": "the same",
		"lookup": "VBMI", "windows3": "VBMI",
		"chain": "by hand: one loop that takes each link's way, in vectors of AVX-512",
		"joinWords": "by hand, for products of bytes by VNNI: " +
			"arm64 multiplies what has 16 bits as numbers",
		"int64ToFloat32": "vectors of arm64 round 64 bits to doubles alone: twice, then",
		"dots":           "arm64 multiplies bfloat16 by BFMMLA, whose operands are panels",
		"evenHalves":     "the same",
		// of arm64
		"matrix": "amd64 multiplies matrices of bytes in AMX alone, which no path uses",
		"quads":  "the packing for matrix", "along": "the same",
	}
)

// TestKernelsOfBothArchitectures holds that a family of kernels stands in one description, for
// both architectures, or is named above with the reason; and that a name above is needed.
func TestKernelsOfBothArchitectures(t *testing.T) {
	found := kernelFamilies(t)
	named := map[string]bool{}
	for _, family := range slices.Sorted(maps.Keys(found)) {
		amd64, arm64 := found[family]["amd64"], found[family]["arm64"]
		reasons := missing
		switch {
		case amd64 != nil && arm64 != nil && maps.Equal(amd64, arm64) && len(amd64) == 1:
			continue
		case amd64 != nil && arm64 != nil:
			reasons = twice
		}
		_, name, _ := strings.Cut(family, ".")
		for _, n := range []string{family, name} {
			if _, ok := reasons[n]; ok {
				name = n
			}
		}
		named[name] = true
		if reasons[name] == "" {
			t.Errorf("%s: described for amd64 in %v and for arm64 in %v, and no reason is given",
				family, slices.Sorted(maps.Keys(amd64)), slices.Sorted(maps.Keys(arm64)))
		}
	}
	for _, list := range []map[string]string{twice, missing} {
		for name := range list {
			if !named[name] {
				t.Errorf("%s is described once for both architectures, or not at all: it needs no "+
					"reason", name)
			}
		}
	}
	if tile := found["gemm.tile"]["arm64"]; !tile["tile.go"] {
		t.Errorf("tiles of arm64 are described in %v", tile)
	}
}

var (
	describedLine = regexp.MustCompile(`(?m)^// func (\w+)\(.*\n// Described in (.*)\.$`)
	// ofSet begins what names have behind that of the family: the instruction set, or the sizes.
	ofSet = regexp.MustCompile(`(S[12](x\d)?|\dx\d\w*|_)?` +
		`(AVX2|AVX512|NEON|VBMI|BF16|U8S8|S8U8|Wide|Dot\d|DotU|DotS|BytesU|BytesS).*$`)
	numbered = regexp.MustCompile(`(pixelTile|Three|ThreeSigned|transpose)\d+$`)
)

// kernelFamilies are the kernels of all packages without what names say of the instruction set, and
// for each architecture the files that describe them.
func kernelFamilies(t *testing.T) map[string]map[string]map[string]bool {
	paths, err := filepath.Glob("../kernel/*/*.s")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	found := map[string]map[string]map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		arch := "amd64"
		if strings.HasSuffix(path, "_arm64.s") {
			arch = "arm64"
		}
		functions := describedLine.FindAllStringSubmatch(string(text), -1)
		if n := strings.Count(string(text), "\nTEXT "); n != len(functions) {
			t.Errorf("%s: %d functions of which %d say where they are described", path, n,
				len(functions))
		}
		for _, f := range functions {
			family := filepath.Base(filepath.Dir(path)) + "." +
				numbered.ReplaceAllString(ofSet.ReplaceAllString(f[1], ""), "$1")
			if found[family] == nil {
				found[family] = map[string]map[string]bool{}
			}
			if found[family][arch] == nil {
				found[family][arch] = map[string]bool{}
			}
			found[family][arch][f[2]] = true
		}
	}
	return found
}
