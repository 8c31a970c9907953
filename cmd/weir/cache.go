package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/plan/cache"
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
		Long: "List the plans that are kept, those used last first, and say of each that no " +
			"start uses any more why: it is of another build of weir or for another " +
			"processor, or its model has changed.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := keptPlans()
			if err != nil {
				return err
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

// keptPlans lists what is kept, as this machine's processor sees it.
func keptPlans() (*cacheList, error) {
	plans, err := openCache()
	if err != nil {
		return nil, err
	}
	on, err := machine.Open("cpu:0", machine.Options{})
	if err != nil {
		return nil, failed(err)
	}
	defer on.Close()
	entries, err := plans.Entries(on.Target)
	if err != nil {
		return nil, failed(err)
	}
	return listOf(plans, entries), nil
}

// listOf is a list of some of the files of a cache.
func listOf(plans *cache.Cache, entries []cache.Entry) *cacheList {
	l := &cacheList{Dir: plans.Dir(), MaxBytes: plans.MaxBytes(), Entries: entries}
	for _, e := range entries {
		l.Bytes += e.Bytes
	}
	return l
}

func (l *cacheList) print(c *cobra.Command) {
	w := c.OutOrStdout()
	t := table{{"model", "for", "size", "used", "serves"}}
	var reasons []string
	for _, e := range l.Entries {
		if e.Kind != "plan" {
			continue
		}
		name, serves := cmp.Or(e.Model, e.File), "yes"
		if e.Reason != "" {
			serves = "no"
			reasons = append(reasons, fmt.Sprintf("%s, %s %s: not used, since %s", name,
				e.Precision, e.Shapes, e.Reason))
		}
		t = append(t, []string{name, e.Precision + " " + e.Shapes, terminal.Size(e.Bytes),
			e.Used.Format("2006-01-02 15:04"), serves})
	}
	if len(t) > 1 {
		t.print(w)
	}
	for _, r := range reasons {
		fmt.Fprintln(w, terminal.Wrap(r, textWidth(w)))
	}
	say(w, "%s: %d plans, %s of at most %s", l.Dir, len(t)-1, terminal.Size(l.Bytes),
		terminal.Size(l.MaxBytes))
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
			return prunePlans(c, unused, asJSON)
		},
	}
	const month = 30 * 24 * time.Hour
	c.Flags().DurationVar(&unused, "unused", month, "remove what was not used for so long")
	c.Flags().BoolVar(&all, "all", false, "remove all of them")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// prunePlans removes what was not used for so long, and tells of it.
func prunePlans(c *cobra.Command, unused time.Duration, asJSON bool) error {
	plans, err := openCache()
	if err != nil {
		return err
	}
	removed, err := plans.Prune(unused)
	l := listOf(plans, removed)
	if asJSON {
		err = errors.Join(err, printJSON(c.OutOrStdout(), l))
	} else {
		say(c.OutOrStdout(), "%s: removed %d files, %s", l.Dir, len(removed),
			terminal.Size(l.Bytes))
	}
	return failed(err)
}
