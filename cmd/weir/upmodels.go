package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/repo"
)

// The ways in which the models that are served change.
var controls = []string{"request", "none", "poll", "explicit"}

// controlFlags say which models are loaded, and when.
type controlFlags struct {
	control string
	load    []string
	every   time.Duration
}

func (f *controlFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.control, "control", controls[0], "how models change: request (all are "+
		"loaded, and loaded and unloaded on request), explicit (as request, and those of --load "+
		"alone at the begin), poll (as the folder does) or none")
	c.Flags().StringSliceVar(&f.load, "load", nil, "the `NAMES` of models to load at the begin, "+
		"with --control explicit; may be repeated")
	c.Flags().DurationVar(&f.every, "poll", 15*time.Second, "how often the folder is looked at, "+
		"with --control poll")
	_ = c.RegisterFlagCompletionFunc("control", cobra.FixedCompletions(controls,
		cobra.ShellCompDirectiveNoFileComp))
}

func (f *controlFlags) check() error {
	switch {
	case !slices.Contains(controls, f.control):
		return fmt.Errorf("--control %.40s: there are %s", f.control, strings.Join(controls, ", "))
	case len(f.load) > 0 && f.control != "explicit":
		return fmt.Errorf("--load is for --control explicit: with %s all models are loaded",
			f.control)
	case f.every < 10*time.Millisecond:
		return fmt.Errorf("--poll %v: give 10ms or more", f.every)
	}
	return nil
}

// fixed reports whether requests to load and unload are refused.
func (f *controlFlags) fixed() bool { return f.control == "none" || f.control == "poll" }

// watch follows the folder, if it is to be, until the server ends.
func (f *controlFlags) watch(ctx context.Context, s *server.Server) {
	if f.control == "poll" {
		go s.Watch(ctx, f.every)
	}
}

// catalogue is where the models come from; nil where there is no folder.
func (f *upFlags) catalogue(w io.Writer, log *slog.Logger) (*server.Folder, error) {
	var err error
	if f.kept, err = f.models.folder(f.people.state); err != nil || f.kept == "" {
		return nil, err
	}
	from := &server.Folder{Path: f.kept}
	if dir := os.Getenv(cache.EnvDir); !f.noCache && dir != "off" {
		from.Options = append(from.Options, lib.WithCache(dir))
	}
	if from.Keys, err = f.sealed.keys(); err != nil {
		return nil, err
	}
	from.Bring, err = f.models.open(f.kept, w, log)
	return from, err
}

// first are the models to serve at the begin.
func (f *upFlags) first(ctx context.Context, from *server.Folder) ([]server.Source, error) {
	if from == nil {
		return []server.Source{{Name: "digits", Version: 1, Open: func() (*lib.Model, error) {
			return lib.Load(digits.Model)
		}}}, nil
	}
	if err := f.control.bring(ctx, from); err != nil {
		return nil, err
	}
	from.Bring = others(from.Bring)
	found, skipped, err := repo.Scan(f.kept)
	if err != nil {
		return nil, err
	}
	for _, s := range skipped {
		slog.Warn("passed over", "path", s.Path, "why", s.Why)
	}
	return f.control.chosen(from, found, f.kept)
}

// bring has the models brought that are loaded at the begin, where they are elsewhere.
func (f *controlFlags) bring(ctx context.Context, from *server.Folder) error {
	switch {
	case from.Bring == nil:
		return nil
	case f.control != "explicit":
		return failed(from.Bring(ctx, ""))
	}
	for _, name := range f.load {
		err := from.Bring(ctx, name)
		if err == nil {
			continue
		}
		if _, none := repo.Find(from.Path, name, nil); none != nil {
			return failed(fmt.Errorf("--load %.200s: %w", name, err))
		}
		slog.Warn("a model is served as it was brought before", "model", name, "why", err)
	}
	return nil
}

// chosen are the models that are loaded at the begin.
func (f *controlFlags) chosen(from *server.Folder, found []repo.Model, folder string) (
	list []server.Source, err error) {
	names := map[string]bool{}
	for i := range found {
		name := found[i].Name
		names[name] = true
		if f.control != "explicit" || slices.Contains(f.load, name) {
			list = append(list, from.Offer(&found[i]).Sources...)
		}
	}
	for _, name := range f.load {
		if !names[name] {
			return nil, fmt.Errorf("--load %.200s: %s has no such model", name, folder)
		}
	}
	if len(found) == 0 && f.control != "explicit" && f.control != "poll" {
		return nil, errors.New(folder + " has no models: expected NAME/VERSION/" + repo.File +
			", such as resnet/1/" + repo.File)
	}
	return list, nil
}
