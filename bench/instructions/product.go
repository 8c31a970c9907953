package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/weirgpu/weir/internal/claims"
)

// The bounds are of a product's instructions over those of the same in float32.
const (
	overFloatBytes = 0.35 // of bytes, by products of matrices (USMMLA)
	overFloatBF16  = 0.6  // of bfloat16, the same (BFMMLA)
)

// shapes are M, N and K of the products: of a transformer on 128 tokens, of a convolution of 1x1,
// and of few rows by weights.
var shapes = [][3]int{{128, 768, 768}, {196, 256, 1024}, {12, 1000, 2048}, {1, 1000, 2048}}

// way is how a product is computed: by numbers of a form, on a path of instructions.
type way struct{ form, path string }

// ways are what is counted, of which the first is what the others are held to.
var ways = []way{{"fp32", "neon"}, {"bf16", "bf16"}, {"int8", "i8mm"}, {"int8", "dotprod"},
	{"int8", "neon"}}

// productLine is what was counted of one product, with A packed in it and B packed before.
type productLine struct {
	M, N, K      int
	Instructions map[string]uint64  `json:"instructions"` // by way
	OverFloat    map[string]float64 `json:"over_fp32"`
}

func (w way) String() string { return w.form + " " + w.path }

// countProducts counts the products on a processor that has everything.
func countProducts(folder string, o options) ([]*productLine, error) {
	folder = filepath.Join(folder, "products")
	if err := os.Mkdir(folder, 0o777); err != nil {
		return nil, err
	}
	e, err := newEmulator(folder, "max")
	if err != nil {
		return nil, err
	}
	guest, err := buildGuest(e)
	if err != nil {
		return nil, err
	}
	var lines []*productLine
	for _, s := range shapes {
		l := &productLine{M: s[0], N: s[1], K: s[2], Instructions: map[string]uint64{},
			OverFloat: map[string]float64{}}
		if err := l.count(e, guest, o.runs); err != nil {
			return nil, fmt.Errorf("product of %v: %w", s, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// count counts a product each way, and compares the results, which are whole numbers.
func (l *productLine) count(e *emulator, guest string, runs int) error {
	file := filepath.Join(e.folder, "result")
	var first []float32
	for _, w := range ways {
		c, err := e.run([]string{"WEIR_ISA=" + w.path}, guest, "product", w.form, strconv.Itoa(l.M),
			strconv.Itoa(l.N), strconv.Itoa(l.K), strconv.Itoa(runs), file)
		if err != nil {
			return fmt.Errorf("%v: %w", w, err)
		}
		counted, err := c.runs()
		if err != nil {
			return fmt.Errorf("%v: %w", w, err)
		}
		result, err := floats(file)
		if err != nil {
			return err
		}
		if first == nil {
			first = result
		}
		if len(result) != l.M*l.N || !slices.Equal(result, first) {
			return fmt.Errorf("%v gives other results than %v", w, ways[0])
		}
		l.Instructions[w.String()] = claims.Median(counted)
		l.OverFloat[w.String()] = float64(claims.Median(counted)) /
			float64(l.Instructions[ways[0].String()])
	}
	return nil
}

// claim enters the ratios.
func (l *productLine) claim(b *claims.Book) {
	shape := fmt.Sprintf("%dx%dx%d", l.M, l.N, l.K)
	b.Check(shape+": instructions of bytes over float32's", l.OverFloat["int8 i8mm"],
		overFloatBytes, true)
	b.Check(shape+": instructions of bfloat16 over float32's", l.OverFloat["bf16 bf16"],
		overFloatBF16, true)
}

// printProducts writes their table, in millions of instructions and ratios.
func printProducts(out io.Writer, lines []*productLine) error {
	if len(lines) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nproduct\t")
	for _, w := range ways {
		fmt.Fprintf(t, "%v\t", w)
	}
	fmt.Fprintln(t)
	for _, l := range lines {
		fmt.Fprintf(t, "%dx%dx%d\t", l.M, l.N, l.K)
		for _, w := range ways {
			fmt.Fprintf(t, "%.2f %.3f\t", million(l.Instructions[w.String()]),
				l.OverFloat[w.String()])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
