package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// State is what is known of a fact.
type State string

// The states.
const (
	Confirmed State = "confirmed"
	Refuted   State = "refuted"
	Unknown   State = "unknown"
)

// Finding is what a check came to about a fact, on a GPU.
type Finding struct {
	State  State
	Detail string
	Date   time.Time
	GPU    string
	Driver string
	File   string // below bench/results/gpu
}

// result is the part of a file of gpu/check.sh that is needed here.
type result struct {
	Date   time.Time `json:"date"`
	Fake   bool      `json:"fake"`
	GPU    string    `json:"gpu"`
	Driver struct {
		Version string `json:"version"`
	} `json:"driver"`
	Facts map[string]struct {
		State  State  `json:"state"`
		Detail string `json:"detail"`
	} `json:"facts"`
}

// readFindings returns what the results in a folder say of each fact, oldest first. Results on the
// fake driver, and what a check left unknown, are left out. A folder that is not there has none.
func readFindings(dir string) (map[string][]Finding, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[string][]Finding{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var r result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for id, f := range r.Facts {
			if !r.Fake && (f.State == Confirmed || f.State == Refuted) {
				found[id] = append(found[id],
					Finding{f.State, f.Detail, r.Date, r.GPU, r.Driver.Version, e.Name()})
			}
		}
	}
	for _, list := range found {
		slices.SortStableFunc(list, func(a, b Finding) int { return a.Date.Compare(b.Date) })
	}
	return found, nil
}
