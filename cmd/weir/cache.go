package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

// cacheList is what the cache of plans holds.
type cacheList struct {
	Dir      string        `json:"dir"`
	Bytes    int64         `json:"bytes"`
	MaxBytes int64         `json:"max_bytes"`
	Entries  []cache.Entry `json:"entries"`
}

func newCache() *cobra.Command {
	return group("cache", "Compiled plans that are kept on disk", newCacheList(), newCachePrune())
}

// openCache opens the folder of plans for who asks for it by name.
func openCache() (*cache.Cache, error) {
	dir := os.Getenv(cache.EnvDir)
	if dir == "off" {
		return nil, fmt.Errorf("no plans are kept: %s=off; let it name a folder, or leave it unset",
			cache.EnvDir)
	}
	plans, err := cache.Open(cache.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	return plans, failed(err)
}

func newCacheList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ls",
		Short: "List the plans that are kept, those used last first",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			plans, err := openCache()
			if err != nil {
				return err
			}
			l := cacheList{Dir: plans.Dir(), MaxBytes: plans.MaxBytes()}
			if l.Entries, err = plans.Entries(); err != nil {
				return failed(err)
			}
			for _, e := range l.Entries {
				l.Bytes += e.Bytes
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), l)
			}
			l.print(c)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (l *cacheList) print(c *cobra.Command) {
	w := c.OutOrStdout()
	t := table{{"model", "for", "size", "used", "build"}}
	for _, e := range l.Entries {
		if e.Kind != "plan" {
			continue
		}
		build := "another"
		if e.Current {
			build = "this"
		}
		name := e.Model
		if name == "" {
			name = e.File
		}
		t = append(t, []string{name, e.Precision + " " + e.Shapes, mib(e.Bytes),
			e.Used.Format("2006-01-02 15:04"), build})
	}
	if len(t) > 1 {
		t.print(w)
	}
	fmt.Fprintf(w, "%s: %d plans, %s of at most %v\n", l.Dir, len(t)-1, mib(l.Bytes),
		share.Bytes(l.MaxBytes))
}

func newCachePrune() *cobra.Command {
	var unused time.Duration
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove plans that were not used for long",
		Long: "Remove plans that were not used for a time, and what is noted of their models. " +
			"Programs that use one keep it; others make it anew at their next start. What weir " +
			"tune has measured stays.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if unused < 0 || all && c.Flags().Changed("unused") {
				return errors.New("give --unused, a time such as 168h, or --all")
			}
			if all {
				unused = -time.Hour // what was used at this very moment, too
			}
			plans, err := openCache()
			if err != nil {
				return err
			}
			removed, err := plans.Prune(unused)
			l := cacheList{Dir: plans.Dir(), MaxBytes: plans.MaxBytes(), Entries: removed}
			for _, e := range removed {
				l.Bytes += e.Bytes
			}
			if asJSON {
				err = errors.Join(err, printJSON(c.OutOrStdout(), l))
			} else {
				fmt.Fprintf(c.OutOrStdout(), "%s: removed %d files, %s\n", l.Dir, len(removed),
					mib(l.Bytes))
			}
			return failed(err)
		},
	}
	const month = 30 * 24 * time.Hour
	c.Flags().DurationVar(&unused, "unused", month, "remove what was not used for so long")
	c.Flags().BoolVar(&all, "all", false, "remove all of them")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
