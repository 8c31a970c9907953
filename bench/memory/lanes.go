package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/zoo"
)

// lanesRow is how many models a device of some memory admits.
type lanesRow struct {
	// Batches are the two sizes of batch.
	Batches [2]int  `json:"batches"`
	Memory  int64   `json:"memory_bytes"`
	Without int     `json:"without"`
	With    int     `json:"with"`
	Ratio   float64 `json:"ratio"`
	// Most is what any sharing of the memory within iterations could gain.
	Most float64 `json:"ratio_at_most"`
	// Kept and Within are what the twelve hold over iterations, and within them beside, together.
	Kept   int64 `json:"kept_bytes"`
	Within int64 `json:"within_bytes"`
}

// need is what a model holds: over iterations, and within one.
type need struct{ persistent, ephemeral share.Bytes }

// mixes are the sizes of batch of the twelve models: each network at both, but for one whose batch
// is fixed, which comes twice with that. Lanes are for what is held within iterations, so what they
// gain depends on the sizes. Something is claimed of one small and one large size; the others are
// shown beside it.
var mixes = []struct {
	batches [2]int
	claimed bool
}{{[2]int{1, 4}, false}, {[2]int{8, 16}, false}, {[2]int{8, 64}, true}, {[2]int{32, 64}, false}}

// lanes compares admission with a lane and without, on devices of sizes that are sold, where
// copies of the twelve come until one is refused.
func (r *results) lanes(int, time.Duration) error {
	for _, mix := range mixes {
		needs, err := needsOf(mix.batches)
		if err != nil {
			return err
		}
		row := lanesRow{Batches: mix.batches}
		for _, n := range needs {
			row.Kept, row.Within = row.Kept+int64(n.persistent), row.Within+int64(n.ephemeral)
		}
		row.Most = float64(row.Kept+row.Within) / float64(row.Kept)
		for _, memory := range []share.Bytes{16 * share.GiB, 24 * share.GiB, 80 * share.GiB} {
			row.Memory = int64(memory)
			if row.Without, err = admitted(needs, memory, 0); err != nil {
				return err
			}
			if row.With, err = admitted(needs, memory, 1); err != nil {
				return err
			}
			row.Ratio = float64(row.With) / float64(max(1, row.Without))
			r.Lanes = append(r.Lanes, row)
			if mix.claimed {
				what := fmt.Sprintf("lanes: models admitted in %v over those without, batches %v",
					memory, mix.batches)
				r.Claims.Check(what, row.Ratio, 2, false)
			}
		}
	}
	return nil
}

// needsOf compiles the twelve models, of which nothing is loaded.
func needsOf(batches [2]int) (needs []need, err error) {
	m, err := machine.Open("cpu:0", machine.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	for _, arch := range zoo.All() {
		g, err := zoo.New(arch.Name, zoo.Options{})
		if err != nil {
			return nil, err
		}
		for _, batch := range batches {
			shapes := map[string][]int{}
			for i, in := range arch.Inputs {
				shape := slices.Clone(in.Shape)
				if _, fixed := g.Inputs[i].Type.Shape[0].Int(); !fixed {
					shape[0] = batch
				}
				shapes[in.Name] = shape
			}
			p, err := plan.Compile(context.Background(), g, plan.Options{Target: m.Target,
				Shapes: shapes, Threads: m.Pool.Threads()})
			if err != nil {
				return nil, fmt.Errorf("%s, batch %d: %w", arch.Name, batch, err)
			}
			needs = append(needs, need{share.Bytes(p.PackedBytes), share.Bytes(p.ArenaBytes)})
		}
	}
	return needs, nil
}

// admitted returns how many jobs of these needs a device admits, in their order, in at most so
// many lanes, as many coming again until one is refused.
func admitted(needs []need, memory share.Bytes, lanes int) (int, error) {
	c, err := core.Config{Device: "bench:0", Units: 1, Memory: memory, Lanes: lanes}.
		ForPolicy("fair")
	if err != nil {
		return 0, err
	}
	k, err := core.New(c)
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		w := needs[n%len(needs)]
		spec := share.Job{Name: fmt.Sprint(n), Ephemeral: w.ephemeral,
			Share: share.Share{Memory: w.persistent + w.ephemeral}}
		_, err := k.Step(core.Event{Kind: core.Admit, Spec: &spec, Need: spec.Memory})
		if errors.Is(err, core.ErrNoMemory) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
