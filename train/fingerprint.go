package train

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/data"
	"github.com/weirgpu/weir/train/recipe"
)

// Keys of the metadata of checkpoints that say what a run is made from.
const (
	keyModel   = "weir.model"   // the digest of its file
	keyData    = "weir.data"    // that of its samples
	keyRecipe  = "weir.recipe"  // what it says, but for where files are
	keyMachine = "weir.machine" // the instruction paths, on which the last bits of sums depend
)

// fingerprint says what the run is made from.
func (r *Prepared) fingerprint() error {
	text, err := json.Marshal(settings(r.recipe))
	if err != nil {
		return err
	}
	model, err := digestOf(r.recipe.Model)
	if err != nil {
		return err
	}
	if d := r.recipe.Distil; d != nil {
		teacher, err := digestOf(d.Teacher)
		if err != nil {
			return err
		}
		model += " " + teacher
	}
	h := sha256.New()
	for _, s := range []*set{&r.data.train, &r.data.eval} {
		s.digest(h)
	}
	r.prints = map[string]string{keyModel: model, keyData: hex.EncodeToString(h.Sum(nil)),
		keyRecipe: string(text), keyMachine: r.on.Target.Identity()}
	return nil
}

// settings are what decides the bits of a run, of what a recipe says itself.
func settings(of *recipe.Recipe) recipe.Recipe {
	s := *of
	s.Model, s.Output, s.Report, s.Checkpoint = "", "", "", recipe.Checkpoint{}
	if s.Shards == 1 { // as in runs of recipes that say nothing of them
		s.Shards = 0
	}
	s.Data.Eval.Rows = ""
	return s
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest adds a set of samples to a digest.
func (s *set) digest(h hash.Hash) {
	fmt.Fprintf(h, "%v\n", s.rows)
	for _, of := range []map[string]data.Source{s.inputs, s.labels} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(h, "%q\n", name)
			of[name].Digest(h)
		}
	}
}

// same refuses a checkpoint of another model or other samples. Another recipe and another
// instruction path it takes, and says so: the digest is then that of no other run.
func (r *Run) same(meta map[string]string) error {
	for _, p := range []struct{ key, what string }{{keyModel, "model file"}, {keyData, "data"}} {
		if meta[p.key] != r.prints[p.key] {
			return fmt.Errorf("%w: it is of another %s than the recipe's: begin anew, or take that",
				checkpoint.ErrCheckpoint, p.what)
		}
	}
	var was, is map[string]any
	err := json.Unmarshal([]byte(meta[keyRecipe]), &was)
	if err == nil {
		err = json.Unmarshal([]byte(r.prints[keyRecipe]), &is)
	}
	if err != nil {
		return fmt.Errorf("%w: its recipe: %w", checkpoint.ErrCheckpoint, err)
	}
	for _, d := range differences("", was, is) {
		r.opts.Log.Warn("the recipe is not that of the checkpoint", "differs", d)
	}
	if from, on := meta[keyMachine], r.prints[keyMachine]; from != on {
		r.opts.Log.Warn("the checkpoint is of another machine: the last bits of sums differ",
			"from", from, "on", on)
	}
	return nil
}

// differences lists what two settings differ in, in the order of names.
func differences(under string, was, is map[string]any) (list []string) {
	for _, k := range slices.Sorted(maps.Keys(is)) {
		a, inner := was[k].(map[string]any)
		b, also := is[k].(map[string]any)
		if inner && also {
			list = append(list, differences(under+k+".", a, b)...)
		} else if x, y := fmt.Sprint(was[k]), fmt.Sprint(is[k]); x != y {
			list = append(list, fmt.Sprintf("%s%s: %s, now %s", under, k, x, y))
		}
	}
	return list
}
