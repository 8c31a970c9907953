package server

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weirgpu/weir/server/store"
)

// Room is the part of the state that [Options.State] has: what models served before.
var Room = store.Room{Name: "models", Migrations: []string{`
CREATE TABLE models_pasts (
	model TEXT PRIMARY KEY,
	past TEXT NOT NULL -- JSON, see past
) STRICT;
`}}

// past is what is kept of a model for the next server.
type past struct {
	// Now are the versions that it was rolled back to, none where it serves what the folder has.
	Now []once `json:"now,omitempty"`
	// Asked are the marks of what the folder had then.
	Asked string `json:"asked,omitempty"`
	// Before are those that a rollback serves.
	Before []once `json:"before,omitempty"`
}

// once is a version as it was: what has changed since is another one.
type once struct {
	Version int64  `json:"version"`
	Mark    string `json:"mark"`
}

// onces are sources in short, nil where one of them is not in the folder.
func onces(sources []Source) (list []once) {
	for i := range sources {
		mark := sources[i].Mark
		if isEnsemble(&sources[i]) {
			mark, _, _ = strings.Cut(mark, "/") // behind it is what of its models was loaded
		}
		if mark == "" {
			return nil
		}
		list = append(list, once{sources[i].Version, mark})
	}
	return list
}

// remember keeps what a model serves and served, for the next server. Its turn is held.
func (s *Server) remember(ctx context.Context, m *model) {
	if s.o.State == nil {
		return
	}
	s.mu.Lock()
	p := past{Before: onces(m.before)}
	if len(m.back) > 0 {
		p.Now, p.Asked = onces(m.back), m.asked
	}
	s.mu.Unlock()
	text := ""
	if len(p.Now)+len(p.Before) > 0 {
		b, err := json.Marshal(p)
		if err != nil {
			panic(err) // numbers and strings
		}
		text = string(b)
	}
	s.write(ctx, m, text)
}

// write keeps what there is to say of a model's past; "" is nothing, for which no row is kept. Its
// turn is held.
func (s *Server) write(ctx context.Context, m *model, text string) {
	if s.o.State == nil || text == m.kept {
		return
	}
	err := s.o.State.Write(ctx, func(tx *sql.Tx) (err error) {
		if text == "" {
			return forget(ctx, tx, m.name)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO models_pasts VALUES (?, ?) ON CONFLICT "+
			"DO UPDATE SET past = excluded.past", m.name, text)
		return err
	})
	if err != nil {
		s.o.Log.Warn("the next start does not know what a model served", "model", m.name, "error",
			err)
		return
	}
	m.kept = text
}

// forget removes what is kept of models.
func forget(ctx context.Context, tx *sql.Tx, names ...string) error {
	for _, name := range names {
		if _, err := tx.ExecContext(ctx, "DELETE FROM models_pasts WHERE model = ?",
			name); err != nil {
			return err
		}
	}
	return nil
}

// clean removes what is kept of models that are in the folder no more. Of one without any model
// nothing is removed: it may be that it is not mounted.
func (s *Server) clean(ctx context.Context, from *Folder, pasts map[string]pastText) {
	if from.Bring != nil {
		return // a model may not have been brought yet
	}
	there, err := from.Names()
	if err != nil || len(there) == 0 {
		return
	}
	var gone []string
	for name := range pasts {
		if !slices.Contains(there, name) {
			gone = append(gone, name)
			delete(pasts, name)
		}
	}
	if len(gone) == 0 {
		return
	}
	if err := s.o.State.Write(ctx, func(tx *sql.Tx) error {
		return forget(ctx, tx, gone...)
	}); err != nil {
		s.o.Log.Warn("what models served that are gone is still kept", "models", gone, "error",
			err)
	}
}

// pastText is a past with its text in the state.
type pastText struct {
	past
	text string
}

// pasts are what was kept of models, by name.
func (s *Server) pasts(ctx context.Context) (map[string]pastText, error) {
	all := map[string]pastText{}
	return all, s.o.State.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT model, past FROM models_pasts")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var k pastText
			if err := rows.Scan(&name, &k.text); err != nil {
				return err
			}
			if json.Unmarshal([]byte(k.text), &k.past) == nil { // else it is a newer weir's
				all[name] = k
			}
		}
		return rows.Err()
	})
}

// recalled are sources with those in place of some that their models were rolled back to, when the
// server begins: a start is no load that somebody asked for.
func (s *Server) recalled(ctx context.Context, sources []Source) []Source {
	from, ok := s.o.Catalogue.(*Folder)
	if s.o.State == nil || !ok {
		return sources
	}
	pasts, err := s.pasts(ctx)
	if err != nil {
		s.o.Log.Warn("what models served before is not known", "error", err)
		return sources
	}
	s.clean(ctx, from, pasts)
	for name, p := range pasts {
		at := slices.IndexFunc(sources, func(src Source) bool { return src.Name == name })
		if at < 0 {
			continue
		}
		before := s.found(from, name, p.Before)
		now := s.found(from, name, p.Now)
		if len(p.Now) > 0 && now == nil {
			before = nil // which is what is served
		}
		s.mu.Lock()
		m := s.model(name)
		m.before, m.back, m.kept = before, now, p.text
		if now != nil && p.Asked != "" {
			m.asked = p.Asked // what is in the folder since then is new to who follows it
		}
		s.mu.Unlock()
		if now != nil {
			sources = slices.DeleteFunc(slices.Clone(sources), func(src Source) bool {
				return src.Name == name
			})
			sources = slices.Insert(sources, min(at, len(sources)), now...)
		}
	}
	return sources
}

// found are the sources of versions that are in the folder as they were; nil where one is not.
func (s *Server) found(from *Folder, name string, list []once) []Source {
	if len(list) == 0 {
		return nil
	}
	o, err := from.versions(name, list)
	if err != nil || !slices.Equal(onces(o.Sources), list) {
		s.o.Log.Warn("a model's versions of before are no longer in the folder as they were",
			"model", name, "error", err)
		return nil
	}
	return o.Sources
}
