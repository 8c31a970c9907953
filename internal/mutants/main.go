package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// options are the command line.
type options struct {
	n        int
	seed     uint64
	targets  string
	match    string
	json     string
	again    string
	parallel int
	list     bool
	score    float64
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 200, "how many mutants to draw, an equal share of each target")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flag.StringVar(&o.targets, "targets", "", "targets, separated by commas; none for all")
	flag.StringVar(&o.match, "match", "", "of those drawn, run the ones whose name matches this")
	flag.StringVar(&o.json, "json", "", "file to write all outcomes to")
	flag.StringVar(&o.again, "again", "", "of those drawn, run the ones that this report of -json "+
		"does not have as noticed")
	flag.IntVar(&o.parallel, "p", 1, "how many mutants run at a time")
	flag.BoolVar(&o.list, "list", false, "print the mutants and run none")
	flag.Float64Var(&o.score, "score", 0.95, "the part that has to be noticed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, o, log); err != nil {
		log.Error("mutants", "err", err)
		os.Exit(1)
	}
}

// run does what the command line asks for.
func run(ctx context.Context, o options, log *slog.Logger) error {
	m, err := thisModule(ctx)
	if err != nil {
		return err
	}
	targets, err := chosen(o.targets)
	if err != nil {
		return err
	}
	d, err := draw(ctx, m, targets, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, mutant := range d.mutants {
			fmt.Printf("%s:%d\t%s\n", mutant.File, mutant.Line, mutant.ID())
		}
		return nil
	}
	r, err := d.outcomes(ctx, m, o, log)
	if err != nil {
		return err
	}
	return r.publish(o, targets)
}

// publish writes a report. It fails when the tests have missed too much.
func (r *Report) publish(o options, targets []Target) error {
	if o.json != "" {
		f, err := os.Create(o.json)
		if err != nil {
			return err
		}
		if err := errors.Join(r.WriteJSON(f), f.Close()); err != nil {
			return err
		}
	}
	if err := r.WriteTable(os.Stdout, targets); err != nil {
		return err
	}
	if n := len(r.Unexplained()); n > 0 || r.Score() < o.score {
		return fmt.Errorf("%d survivors without a reason, score %.3f; at least %.2f is due: add a "+
			"test, or a line to internal/mutants/known.txt", n, r.Score(), o.score)
	}
	return nil
}

// chosen finds targets by name.
func chosen(names string) ([]Target, error) {
	if names == "" {
		return Targets, nil
	}
	var list []Target
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(Targets, func(t Target) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no target %q: see internal/mutants/build.go", name)
		}
		list = append(list, Targets[i])
	}
	return list, nil
}

// drawn is the mutants of a run.
type drawn struct {
	mutants []*Mutant
	of      []Target // of each
	sources []*Source
}

// draw loads the targets' packages and draws the mutants.
func draw(ctx context.Context, m *module, targets []Target, o options) (*drawn, error) {
	d := &drawn{}
	for i, t := range targets {
		n := o.n*(i+1)/len(targets) - o.n*i/len(targets)
		list, err := d.load(ctx, m, t, n, o.seed)
		if err != nil {
			return nil, err
		}
		for _, mutant := range list {
			d.mutants, d.of = append(d.mutants, mutant), append(d.of, t)
		}
	}
	number(d.mutants)
	for _, s := range d.sources {
		s.attach(slices.DeleteFunc(slices.Clone(d.mutants), func(m *Mutant) bool {
			return !slices.Contains(s.files, m.fn.file)
		}))
	}
	return d, d.choose(o)
}

// choose keeps the mutants that the command line asks to run. The others stay in the changed files,
// so that a run of some builds what a run of all built.
func (d *drawn) choose(o options) error {
	match, err := regexp.Compile(o.match)
	if err != nil {
		return err
	}
	noticed, err := noticedIn(o.again)
	if err != nil {
		return err
	}
	kept := 0
	for i, m := range d.mutants {
		if match.MatchString(m.ID()) && !noticed[m.ID()] {
			d.mutants[kept], d.of[kept] = m, d.of[i]
			kept++
		}
	}
	d.mutants, d.of = d.mutants[:kept], d.of[:kept]
	return nil
}

// noticedIn are the mutants that an earlier report says were noticed; none without a report.
func noticedIn(file string) (map[string]bool, error) {
	noticed := map[string]bool{}
	if file == "" {
		return noticed, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, out := range r.Outcomes {
		noticed[out.Name] = out.Noticed
	}
	return noticed, nil
}

// load draws n mutants of a target, of each package as many as it has of all changes.
func (d *drawn) load(ctx context.Context, m *module, t Target, n int, seed uint64) (
	[]*Mutant, error,
) {
	var paths []string
	for _, p := range t.Packages {
		paths = append(paths, m.importPath(p))
	}
	all, err := list(ctx, true, paths...)
	if err != nil {
		return nil, err
	}
	sites, sources := 0, make([]*Source, len(paths))
	for i, p := range paths {
		if sources[i], err = Load(all[p], m.root, t.Files, exports(all)); err != nil {
			return nil, err
		}
		sites += len(sources[i].Mutants)
	}
	d.sources = append(d.sources, sources...)
	return drawFrom(sources, n, sites, seed)
}

// drawFrom draws n mutants from sources with so many sites in all, from each in proportion.
func drawFrom(sources []*Source, n, sites int, seed uint64) (mutants []*Mutant, err error) {
	before := 0
	for _, s := range sources {
		share := n*(before+len(s.Mutants))/max(1, sites) - n*before/max(1, sites)
		before += len(s.Mutants)
		got, err := s.Draw(share, seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		mutants = append(mutants, got...)
	}
	return mutants, nil
}

// outcomes builds the tests and runs all mutants.
func (d *drawn) outcomes(ctx context.Context, m *module, o options, log *slog.Logger) (
	*Report, error,
) {
	harmless, err := reasons(known)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	suites, err := d.suites(ctx, m, dir, log)
	if err != nil {
		return nil, err
	}
	r := &Report{Seed: o.seed, Of: len(d.mutants), Outcomes: make([]*Outcome, len(d.mutants))}
	err = each(len(d.mutants), o.parallel, func(i int) error {
		var tests []*suite
		for _, t := range d.of[i].Tests {
			tests = append(tests, suites[t])
		}
		out, err := judge(ctx, d.mutants[i], tests)
		if err != nil {
			return err
		}
		out.Target = d.of[i].Name
		if !out.Noticed {
			out.Harmless = harmless[out.Name]
		}
		r.Outcomes[i] = out
		log.Info("mutant", "n", i+1, "of", r.Of, "noticed", out.Noticed, "by", out.By,
			"seconds", int(out.Seconds), "id", out.Name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Noticed, _ = r.count("", "")
	return r, nil
}

// suites builds the tests that the mutants need.
func (d *drawn) suites(ctx context.Context, m *module, dir string, log *slog.Logger) (
	map[string]*suite, error,
) {
	var tests []string
	for _, t := range d.of {
		tests = append(tests, t.Tests...)
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	log.Info("building", "mutants", len(d.mutants), "tests", len(tests))
	binaries, err := build(ctx, m, dir, d.sources, tests)
	if err != nil {
		return nil, err
	}
	suites := map[string]*suite{}
	for _, t := range tests {
		suites[t] = &suite{pkg: t, binary: binaries[t], dir: filepath.Join(m.root, t), home: dir}
		suites[t].learn = sync.OnceValue(func() error {
			log.Info("running tests without a change", "package", t)
			return suites[t].observe(ctx)
		})
	}
	return suites, nil
}

// each calls f for 0 to n-1, so many at a time, and returns the first error.
func each(n, parallel int, f func(i int) error) error {
	next := make(chan int)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range max(1, parallel) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}
