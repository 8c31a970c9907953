package kernels

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

var rewriteServed = flag.Bool("update", false, "write testdata/served.txt again")

const servedFile = "testdata/served.txt"

// TestServed holds which calls have a kernel, and how large their packed weights are. A kernel that
// takes fewer calls than before fails no other test: the reference serves, many times slower. The
// path is the one that every machine has.
func TestServed(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nothing, so that there is nothing for the race detector to see")
	}
	defer cpuinfo.Limit(cpuinfo.PathPlain)()
	var text strings.Builder
	for _, key := range rows() {
		gen, valid, bytes := generator(key), 0, 0
		names := map[string]int{}
		for i := range uint64(100) {
			_, r, ok := gen(newSource(i, 7), key).request()
			if !ok {
				continue
			}
			valid++
			k, err := prepare(r)
			if err != nil {
				names["an error"]++
			} else if k != nil {
				names[k.Name()]++
				bytes += k.PackedBytes()
			}
		}
		fmt.Fprintf(&text, "%s of %d:", strings.TrimSpace(key.domain+" "+key.name), valid)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&text, " %d %s,", names[name], name)
		}
		fmt.Fprintf(&text, " %d bytes packed\n", bytes)
	}
	if *rewriteServed {
		if err := os.WriteFile(servedFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(servedFile)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text.String(), "\n"), strings.Split(string(was), "\n")
	if len(got) != len(want) {
		t.Errorf("%d rows have kernels, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s\nif it is meant, run this test with -update", got[i],
				want[i])
		}
	}
}
