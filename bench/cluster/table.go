package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/kube/place"
	"github.com/weirgpu/weir/kube/sim"
)

// row is a policy on a trace, in percent of all devices when 130 % of them have been asked for. Of
// ours the published figure is FGD's.
type row struct {
	Trace     string  `json:"trace"`
	Policy    string  `json:"policy"`
	Published float64 `json:"published"`
	Here      float64 `json:"here"`
}

// Bounds of the table, in points: published policies come out again, and ours is never worse than
// FGD, and good on the default trace.
const (
	again      = 0.3
	worse      = 0.2
	defaultMin = 96.5
)

// names are the published names of policies.
var names = map[string]string{"01-Random": "random", "02-DotProd": "dotprod",
	"03-GpuClustering": "clustering", "04-GpuPacking": "packing", "05-BestFit": "bestfit",
	"06-FGD": "fgd"}

// traces returns the unpacked folder of the openb traces.
func traces() (string, error) {
	if dir := os.Getenv("WEIR_OPENB"); dir != "" {
		return dir, nil
	}
	dir, err := archive.Unpacked(filepath.Join("..", "shared", "data", "openb.tar.xz"))
	if err != nil {
		return "", fmt.Errorf("no openb traces: set WEIR_OPENB to their unpacked folder: %w", err)
	}
	return filepath.Join(dir, "openb"), nil
}

// published reads what was published, in its order: FGD is the last policy of each trace.
func published(dir string) ([]row, error) {
	f, err := os.Open(filepath.Join(dir, "fgd_published_alloc_summary.txt"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	var all []row
	for _, l := range lines {
		text, _, _ := strings.Cut(strings.TrimPrefix(l[5], "@130="), " ")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, row{Trace: strings.TrimPrefix(l[0], "openb_pod_list_"),
			Policy: names[l[1]], Published: v})
		if names[l[1]] == "fgd" {
			all = append(all, row{Trace: all[len(all)-1].Trace, Policy: "prices", Published: v})
		}
	}
	return all, nil
}

func (r *results) measure(dir string) error {
	all, err := published(dir)
	if err != nil {
		return err
	}
	for _, w := range all {
		fmt.Fprintf(os.Stderr, "\r%-30s", w.Trace+" "+w.Policy)
		if w.Here, err = mean(dir, w, r.Seeds); err != nil {
			return err
		}
		r.Table = append(r.Table, w)
		if why := w.missed(); why != "" {
			r.Missed = append(r.Missed, why)
		}
	}
	fmt.Fprint(os.Stderr, "\r", strings.Repeat(" ", 30), "\r")
	return r.rates(dir)
}

// missed says which bound a row misses.
func (w row) missed() string {
	switch {
	case w.Policy != "prices" && math.Abs(w.Here-w.Published) > again:
		return fmt.Sprintf("%s on %s: %.2f, published %.2f", w.Policy, w.Trace, w.Here, w.Published)
	case w.Policy == "prices" && w.Here < w.Published-worse:
		return fmt.Sprintf("prices on %s: %.2f, FGD %.2f", w.Trace, w.Here, w.Published)
	case w.Policy == "prices" && w.Trace == "default" && w.Here < defaultMin:
		return fmt.Sprintf("prices on default: %.2f, at least %.1f is wanted", w.Here, defaultMin)
	}
	return ""
}

func mean(dir string, w row, seeds int) (float64, error) {
	t, err := sim.Open(filepath.Join(dir, "csv", "openb_pod_list_"+w.Trace+".csv"), "")
	if err != nil {
		return 0, err
	}
	p, _ := place.Named(w.Policy)
	sum := 0.0
	for i := range seeds {
		res, err := sim.Run(context.Background(), t, sim.Options{Policy: p, Seed: int64(42 + i)})
		if err != nil {
			return 0, err
		}
		sum += 100 * res.Allocation
	}
	return sum / float64(seeds), nil
}
