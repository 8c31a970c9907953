package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// textbook is demand paging by LRU (Denning, "The working set model for program behavior", CACM
// 1968), of whole models, which knows nothing of weir: the rival that a rule of weir's has to beat
// is not weir's own only.
type textbook struct {
	room    int64
	size    map[share.JobID]int64
	here    []share.JobID // on the device, used last at the end
	free    int64
	hits, n int64
}

// newTextbook begins with what is there after all models were loaded in turn, the last ones.
func newTextbook(room int64, jobs []share.JobID, size map[share.JobID]int64) *textbook {
	b := &textbook{room: room, free: room, size: size}
	for _, j := range jobs {
		b.ask(j)
	}
	b.hits, b.n = 0, 0
	return b
}

// ask has a model serve a request.
func (b *textbook) ask(j share.JobID) {
	b.n++
	if i := slices.Index(b.here, j); i >= 0 {
		b.hits++
		b.here = append(slices.Delete(b.here, i, i+1), j)
		return
	}
	for b.free < b.size[j] && len(b.here) > 0 {
		b.free += b.size[b.here[0]]
		b.here = b.here[1:]
	}
	b.free -= b.size[j]
	b.here = append(b.here, j)
}

// played is what a recording of a core tells of a run: the jobs, in the order in which they were
// let in, with their names, and whose iterations began, in order.
type played struct {
	jobs   []share.JobID
	names  map[share.JobID]string
	begins []share.JobID
}

// readPlayed reads a recording ([core.Recorder]).
func readPlayed(r io.Reader) (p played, err error) {
	p.names = map[share.JobID]string{}
	d := json.NewDecoder(r)
	for {
		var line struct {
			Event   core.Event
			Notices []core.Notice
			Error   string
		}
		if err := d.Decode(&line); err == io.EOF {
			return p, nil
		} else if err != nil {
			return p, fmt.Errorf("a recording: %w", err)
		}
		for _, n := range line.Notices {
			if n.Kind == core.Admitted {
				p.jobs, p.names[n.Job] = append(p.jobs, n.Job), n.Name
			}
		}
		if line.Event.Kind == core.Begin && line.Error == "" {
			p.begins = append(p.begins, line.Event.Job)
		}
	}
}
