package web

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// rows are the rows of one list of a state, by name, each with the number of the look at which it
// last changed.
type rows struct {
	byName map[string]row
	order  []string // names, sorted
	gone   []tomb   // in the order of their numbers
}

type row struct {
	text  json.RawMessage
	since uint64
}

// tomb is the name of a row that is no more.
type tomb struct {
	name  string
	since uint64
}

// mostTombs is how many names are remembered of rows that are gone.
const mostTombs = 1000

// set takes what the rows are at look n. It returns whether any has changed, and the number of the
// last change that is forgotten, 0 for none.
func (r *rows) set(n uint64, names []string, texts []json.RawMessage) (changed bool, lost uint64) {
	if r.byName == nil {
		r.byName = map[string]row{}
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		seen[name] = true
		if old, ok := r.byName[name]; !ok || !bytes.Equal(old.text, texts[i]) {
			r.byName[name] = row{texts[i], n}
			changed = true
		}
	}
	for name := range r.byName {
		if !seen[name] {
			delete(r.byName, name)
			r.gone = append(r.gone, tomb{name, n})
			changed = true
		}
	}
	if changed {
		r.order = r.order[:0]
		for name := range r.byName {
			r.order = append(r.order, name)
		}
		slices.SortFunc(r.order, strings.Compare)
	}
	if over := len(r.gone) - mostTombs; over > 0 {
		lost = r.gone[over-1].since
		r.gone = slices.Delete(r.gone, 0, over)
	}
	return changed, lost
}

// after returns the rows that have changed after look n and that may be seen, and the names of
// those that are gone since.
func (r *rows) after(n uint64, may func(name string) bool) (list []json.RawMessage, gone []string) {
	for _, name := range r.order {
		if row := r.byName[name]; row.since > n && may(name) {
			list = append(list, row.text)
		}
	}
	for _, t := range r.gone {
		if _, back := r.byName[t.name]; t.since > n && !back && may(t.name) {
			gone = append(gone, t.name)
		}
	}
	return list, gone
}
