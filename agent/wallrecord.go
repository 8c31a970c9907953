package agent

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/internal/wire"
)

// An agent that is started again must know which limits the one before has set: the driver does not
// say whose they are, and they outlive both. They are written into a file of the runtime folder,
// each before it is set.

// wallRecord is a limit as written, in JSON.
type wallRecord struct {
	Device uint32   `json:"device"`
	Fake   bool     `json:"fake"`
	Group  string   `json:"group"`
	ID     pageID   `json:"id"`
	Bytes  uint64   `json:"memory_bytes"`
	Before uint64   `json:"memory_bytes_before"`
	Jobs   []string `json:"jobs"`
}

const (
	wallFile = "limits.json"
	// maxWallRecords bounds what is read of it.
	maxWallRecords = 8 << 20
)

func compareWalls(x, y wallKey) int {
	if x.Device != y.Device {
		return int(x.Device) - int(y.Device)
	}
	return strings.Compare(x.Group, y.Group)
}

// inOrder lists the limits that stand by device and group.
func (w *walls) inOrder() []wallKey {
	keys := slices.Collect(maps.Keys(w.standing))
	sorting.By(keys, compareWalls)
	return keys
}

// keep writes the limits that stand, for the next agent.
func (w *walls) keep() {
	var list []wallRecord
	for _, k := range w.inOrder() {
		b := w.standing[k]
		r := wallRecord{Device: k.Device, Fake: w.a.device(k.Device).Fake, Group: k.Group, ID: b.id,
			Bytes: b.bytes, Before: b.before}
		for token := range b.jobs {
			r.Jobs = append(r.Jobs, token.String())
		}
		slices.Sort(r.Jobs)
		list = append(list, r)
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = replaceFile(w.a.cfg.Dir, wallFile, text)
	}
	if err != nil {
		w.a.log.Warn("no record of the driver's limits: an agent that is started again leaves "+
			"them standing", "error", err)
	}
}

// load returns the limits that the agent before has left standing. What somebody else has changed
// since is theirs.
func (w *walls) load() map[wallKey]*wall {
	standing := map[wallKey]*wall{}
	list, err := readWalls(filepath.Join(w.a.cfg.Dir, wallFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.a.log.Warn("limits of the agent before are left standing", "error", err)
	}
	for _, r := range list {
		dev := w.a.device(r.Device)
		if dev == nil || dev.Fake != r.Fake || r.ID == (pageID{}) || w.groups.id(r.Group) != r.ID {
			continue
		}
		has, err := w.limiter.MemoryLimit(r.Device, r.Group)
		if err != nil || has == NoMemoryLimit || has != r.Bytes && has != r.Before {
			continue
		}
		b := &wall{id: r.ID, bytes: has, before: has, jobs: map[wire.Token]bool{}, inherited: true}
		for _, text := range r.Jobs {
			if token, err := wire.ParseToken(text); err == nil {
				b.jobs[token] = true
			}
		}
		standing[wallKey{r.Device, r.Group}] = b
	}
	return standing
}

func readWalls(path string) (list []wallRecord, err error) {
	f, err := openOwn(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, maxWallRecords))
	d.DisallowUnknownFields()
	err = d.Decode(&list)
	return list, err
}

// replaceFile writes a file of the folder, mode 0600, at once: who reads it finds the one or the
// other.
func replaceFile(dir, name string, text []byte) error {
	f, err := os.CreateTemp(dir, recordTemp)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
