package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/source"
)

// placeFlags say where models come from: one folder, or places elsewhere, of which a folder is kept
// as they are.
type placeFlags struct {
	given  []string
	mirror *source.Mirror // nil for a folder
}

func (f *placeFlags) add(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.given, "models", nil, "the `FOLDER` of models (default: models, "+
		"if there is one), or where they are brought from: oci://HOST/REPOSITORY[:TAG|@DIGEST], "+
		"s3://BUCKET[/PREFIX]; may be repeated for such")
}

// folder is that of the models to serve, "" for none. state is the server's.
func (f *placeFlags) folder(state string) (string, error) {
	const usual = "models"
	if len(f.given) == 0 {
		if _, err := os.Stat(usual); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return usual, nil
	}
	elsewhere := slices.ContainsFunc(f.given, source.Remotes)
	switch {
	case !elsewhere && len(f.given) > 1:
		return "", fmt.Errorf("--models %s: give one folder", strings.Join(f.given, ","))
	case !elsewhere:
		return f.given[0], nil
	case state != "":
		return filepath.Join(state, usual), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--models: %w: give --state, in whose folder models are kept", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(f.given, "\n")))
	return filepath.Join(cache, "weir", "models", fmt.Sprintf("%x", sum[:8])), nil
}

// bringer is source.Mirror.Bring.
type bringer = func(ctx context.Context, model string) error

// open takes the folder where models are kept that are brought from elsewhere, and returns what
// brings them; nil where they are not.
func (f *placeFlags) open(folder string, w io.Writer, log *slog.Logger) (bringer, error) {
	if !slices.ContainsFunc(f.given, source.Remotes) {
		return nil, nil
	}
	var from []source.Remote
	for _, address := range f.given {
		r, err := source.Parse(address, os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("--models: %w", err)
		}
		from = append(from, r)
	}
	var err error
	f.mirror, err = source.Open(folder, from, source.Options{Log: log, Progress: drawn(w)})
	if err != nil {
		return nil, failed(err)
	}
	return f.mirror.Bring, nil
}

// others is bring for a server that runs: models that do not come keep no others from being served.
func others(bring bringer) bringer {
	if bring == nil {
		return nil
	}
	return func(ctx context.Context, model string) error {
		err := bring(ctx, model)
		if model == "" && errors.Is(err, source.ErrSome) {
			slog.Warn("models are missing", "why", err)
			return nil
		}
		return err
	}
}

// close gives the folder back.
func (f *placeFlags) close() error {
	if f.mirror == nil {
		return nil
	}
	return f.mirror.Close()
}

// drawn draws a bar of each file that is brought.
func drawn(w io.Writer) func(what string, done, all int64) {
	var mu sync.Mutex
	var line *bar
	var of string
	return func(what string, done, all int64) {
		mu.Lock()
		defer mu.Unlock()
		if line == nil || of != what {
			line.end()
			line, of = newBar(w, what, all), what
		}
		line.show(done, "")
		if done == all {
			line.end()
			line = nil
		}
	}
}
