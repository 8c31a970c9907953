package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// marks are those of models, by name.
type marks = map[string]string

// reopened are the state that a server left in dir, and a folder of one model with what it has now.
func reopened(t *testing.T, folder, dir string) (*store.Store, *Folder, []Source) {
	t.Helper()
	kept, err := store.Open(t.Context(), dir, store.Options{}, Room)
	if err != nil {
		t.Fatal(err)
	}
	from := &Folder{Path: folder}
	offers, err := from.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kept, from, offers[0].Sources
}

// TestRollbackIsKeptUntilTheFolderChanges: where the folder is followed, or nothing changes, what a
// model was rolled back to is served after a restart too; what came into the folder since, also
// while there was no server, ends that where it is followed.
func TestRollbackIsKeptUntilTheFolderChanges(t *testing.T) {
	folder, dir := laid(t, "", 1), t.TempDir()
	begun := func(what string, watched bool, serves string, do func(s *Server, seen marks) error) {
		t.Helper()
		kept, from, sources := reopened(t, folder, dir)
		s := begin(t, Options{Catalogue: from, State: kept, Fixed: true}, sources...)
		var seen marks
		if watched {
			seen = s.watching()
			s.follow(t.Context(), seen)
		}
		if m, err := s.Metadata("m", ""); err != nil || m.Versions[0] != serves {
			t.Errorf("%s: versions %v (%v), want %s", what, m.Versions, err, serves)
		}
		if err := errors.Join(do(s, seen), s.Close(), kept.Close()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	back := func(s *Server, _ marks) error { return s.Rollback(t.Context(), "m") }
	refused := func(s *Server, _ marks) error {
		if err := s.Rollback(t.Context(), "m"); oip.KindOf(err) != oip.Unavailable {
			t.Errorf("nothing was to change: %v", err)
		}
		return nil
	}
	begun("first", true, "1", func(s *Server, seen marks) error {
		put1(t, folder, 2)
		s.follow(t.Context(), seen)
		return back(s, nil)
	})
	begun("rolled back", true, "1", func(s *Server, seen marks) error {
		s.follow(t.Context(), seen) // the folder is as it was
		if m, err := s.Metadata("m", ""); err != nil || m.Versions[0] != "1" {
			t.Errorf("looked at again: %v, %v", m.Versions, err)
		}
		return nil
	})
	begun("where nothing changes", false, "1", refused)
	put1(t, folder, 3)
	begun("something new where nothing changes", false, "1", refused)
	begun("something new", true, "3", back)
	begun("rolled back again", true, "1", back)
	begun("and forth", true, "3", func(*Server, marks) error { return nil })
}

// TestRollbackIsKept: what a model was rolled back to is served after a restart too, and can be
// rolled back again; once it is loaded, or has changed in the folder, what is there is served.
func TestRollbackIsKept(t *testing.T) {
	folder, dir := laid(t, "", 1), t.TempDir()
	put1(t, folder, 2)
	begun := func(what, serves string, do func(s *Server) error) {
		t.Helper()
		kept, from, sources := reopened(t, folder, dir)
		s := begin(t, Options{Catalogue: from, State: kept}, sources...)
		if m, err := s.Metadata("m", ""); err != nil || len(m.Versions) != 1 ||
			m.Versions[0] != serves {
			t.Errorf("%s: versions %v (%v), want %s", what, m.Versions, err, serves)
		}
		if err := do(s); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	}
	back := func(s *Server) error { return s.Rollback(t.Context(), "m") }
	load := func(s *Server) error { return s.LoadModel(t.Context(), "m", nil) }
	begun("first", "2", func(s *Server) error {
		put1(t, folder, 3)
		return load(s)
	})
	begun("before it is rolled back", "3", back)
	begun("rolled back", "2", back)
	begun("and forth", "3", back)
	begun("back again", "2", load)
	begun("loaded", "3", back)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(folder, "m", "2", "model.onnx"), later, later); err != nil {
		t.Fatal(err)
	}
	begun("changed meanwhile", "3", func(s *Server) error {
		if back(s) == nil {
			t.Error("it is rolled back to what is there no more")
		}
		return nil
	})
}
