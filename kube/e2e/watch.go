package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// podList is of pods what the test looks at.
type podList struct {
	Items []podItem
}

type podItem struct {
	Metadata struct{ Name, UID string }
	Status   struct {
		Phase                       string
		ContainerStatuses           []containerStatus
		ResourceClaimStatuses       []struct{ ResourceClaimName string }
		ExtendedResourceClaimStatus struct{ ResourceClaimName string }
	}
}

type containerStatus struct {
	Name         string
	RestartCount int
	Ready        bool
	State        struct {
		Waiting struct{ Reason, Message string }
	}
}

// claimItem is of a claim what it was given, and who wrote it.
type claimItem struct {
	Metadata struct {
		Name, UID     string
		Finalizers    []string
		ManagedFields []struct{ Manager, Subresource string }
	}
	Status struct {
		Allocation struct {
			Devices struct {
				Results []struct {
					Device, Pool     string
					ConsumedCapacity map[string]string
				}
			}
		}
	}
}

// pods are those of the test's own, by their names.
func (t *tester) pods(ctx context.Context) (map[string]podItem, error) {
	var l podList
	if err := t.client.Get(ctx, podsPath+"?labelSelector=test%3Dweir", &l); err != nil {
		return nil, err
	}
	all := map[string]podItem{}
	for i := range l.Items {
		all[l.Items[i].Metadata.Name] = l.Items[i]
	}
	return all, nil
}

// hello and progress are what the program in a pod prints.
type hello struct {
	Got, Total int64
	UUID       string
}

type progress struct {
	NS      int64   `json:"ns"`
	Kernels int64   `json:"kernels"`
	GapMS   float64 `json:"gap_ms"`
}

// said is what a pod's container has said since it was last started: the whole lines of its log.
func (t *tester) said(p *podItem) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(t.node.Logs, "*_"+p.Metadata.UID, "work", "*.log"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, nil
	}
	slices.Sort(files) // they are numbered
	text, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil, err
	}
	var all []string
	lines := strings.Split(string(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		// Time, stream and a letter are before what was said (CRI's format of logs).
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			all = append(all, f[3])
		}
	}
	return all, nil
}

// first reads what a pod says of its memory; false while it has not.
func (t *tester) first(p *podItem) (h hello, ok bool, err error) {
	lines, err := t.said(p)
	if err != nil || len(lines) == 0 {
		return h, false, err
	}
	if err := json.Unmarshal([]byte(lines[0]), &h); err != nil {
		return h, false, fmt.Errorf("pod %s says %q", p.Metadata.Name, lines[0])
	}
	return h, true, nil
}

// latest is the last that a pod says of its work, and its longest time without a kernel since one.
func (t *tester) latest(p *podItem, since int64) (last progress, gap float64, err error) {
	lines, err := t.said(p)
	if err != nil {
		return last, 0, err
	}
	for _, line := range lines[min(1, len(lines)):] {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			return last, gap, fmt.Errorf("pod %s says %q", p.Metadata.Name, line)
		}
		if last.NS > since {
			gap = max(gap, last.GapMS)
		}
	}
	return last, gap, nil
}

// event waits for an event of an object whose message has all these words, and returns it.
func (t *tester) event(ctx context.Context, path, object string, words ...string) (string, error) {
	var found string
	err := t.until(ctx, fmt.Sprintf("an event of %s with %q", object, words), func() (bool, error) {
		var l struct {
			Items []struct {
				Reason, Message string
				InvolvedObject  struct{ Name string }
			}
		}
		if err := t.client.Get(ctx, path, &l); err != nil {
			return false, err
		}
		var seen []string
		for _, e := range l.Items {
			if e.InvolvedObject.Name != object {
				continue
			}
			text := e.Reason + ": " + e.Message
			seen = append(seen, text)
			if !slices.ContainsFunc(words, func(w string) bool {
				return !strings.Contains(text, w)
			}) {
				found = text
				return true, nil
			}
		}
		return false, fmt.Errorf("there are %q", seen)
	})
	return found, err
}
