package server

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/examples/digits"
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

// TestRollbackOutlivesAFailedLoad: a load that fails leaves what a model was rolled back to, over
// the end of the server too.
func TestRollbackOutlivesAFailedLoad(t *testing.T) {
	folder, dir := laid(t, "", 1), t.TempDir()
	for _, what := range []string{"loaded", "begun again"} {
		kept, from, sources := reopened(t, folder, dir)
		s := begin(t, Options{Catalogue: from, State: kept}, sources...)
		if what == "loaded" {
			put1(t, folder, 2)
			if err := errors.Join(s.LoadModel(t.Context(), "m", nil),
				s.Rollback(t.Context(), "m")); err != nil {
				t.Fatal(err)
			}
			put1(t, folder, 3)
			broken := filepath.Join(folder, "m", "3", "model.onnx")
			if err := os.WriteFile(broken, []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.LoadModel(t.Context(), "m", nil); err == nil {
				t.Error("nonsense was loaded")
			}
		}
		if m, err := s.Metadata("m", ""); err != nil || m.Versions[0] != "1" {
			t.Errorf("%s: versions %v (%v), want 1", what, m.Versions, err)
		}
		if err := errors.Join(s.Close(), kept.Close()); err != nil {
			t.Error(err)
		}
	}
}

// remembered are the models of whose pasts the state has something.
func remembered(t *testing.T, s *Server) (names []string) {
	t.Helper()
	if err := s.o.State.Read(t.Context(), func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT model FROM models_pasts ORDER BY model")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPastsGoWithTheirModels: the state has nothing of models of whose past there is nothing to
// say, and of those that are gone from the folder: while it is followed, and when a server begins.
func TestPastsGoWithTheirModels(t *testing.T) {
	folder, dir := laid(t, "", 1), t.TempDir()
	kept, from, sources := reopened(t, folder, dir)
	s := begin(t, Options{Catalogue: from, State: kept}, sources...)
	has := func(when string, want ...string) {
		t.Helper()
		if got := remembered(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: of %q, want %q", when, got, want)
		}
	}
	load := func(p oip.Parameters) {
		t.Helper()
		if err := s.LoadModel(t.Context(), "m", p); err != nil {
			t.Fatal(err)
		}
	}
	has("first")
	put1(t, folder, 2)
	load(nil)
	has("loaded", "m")
	given := oip.Parameters{"config": "{}", "file:7/model.onnx": string(digits.Model)}
	load(given)
	given["file:8/model.onnx"] = given["file:7/model.onnx"]
	load(given) // to roll back to 7 takes what is in no folder
	has("without a past in the folder")
	load(nil)
	put1(t, folder, 3)
	load(nil)
	has("loaded again", "m")
	seen := s.watching()
	away := folder + "-away"
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(filepath.Join(folder, "m"), away)
	s.follow(t.Context(), seen)
	has("gone")
	move(away, filepath.Join(folder, "m"))
	s.follow(t.Context(), seen)
	put1(t, folder, 4)
	s.follow(t.Context(), seen)
	has("back", "m")
	again := func(when string, want ...string) {
		t.Helper()
		if err := errors.Join(s.Close(), kept.Close()); err != nil {
			t.Fatal(err)
		}
		var err error
		if kept, err = store.Open(t.Context(), dir, store.Options{}, Room); err != nil {
			t.Fatal(err)
		}
		s = begin(t, Options{Catalogue: from, State: kept})
		has(when, want...)
	}
	again("begun again", "m")
	move(filepath.Join(folder, "m"), away)
	again("without any model", "m")
	if err := os.MkdirAll(filepath.Join(folder, "other", "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	again("gone meanwhile")
	if err := errors.Join(s.Close(), kept.Close()); err != nil {
		t.Error(err)
	}
}

// TestPastIsTakenBack: a model that was rolled back before the server began, and is loaded since,
// is not rolled back when the next one begins, though there is nothing to roll it back to.
func TestPastIsTakenBack(t *testing.T) {
	folder, dir := laid(t, "", 1), t.TempDir()
	for _, c := range []struct {
		serves string
		do     func(s *Server) error
	}{
		{"1", func(s *Server) error {
			put1(t, folder, 2)
			return errors.Join(s.LoadModel(t.Context(), "m", nil), s.Rollback(t.Context(), "m"))
		}},
		{"1", func(s *Server) error {
			if err := s.UnloadModel(t.Context(), "m", nil); err != nil {
				return err
			}
			s.models["m"].before = nil
			return s.LoadModel(t.Context(), "m", nil)
		}},
		{"2", func(*Server) error { return nil }},
	} {
		kept, from, sources := reopened(t, folder, dir)
		s := begin(t, Options{Catalogue: from, State: kept}, sources...)
		if m, err := s.Metadata("m", ""); err != nil || m.Versions[0] != c.serves {
			t.Errorf("versions %v (%v), want %s", m.Versions, err, c.serves)
		}
		if err := errors.Join(c.do(s), s.Close(), kept.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestEnsemblesAreRemembered: what an ensemble served before one of its models changed is kept.
func TestEnsemblesAreRemembered(t *testing.T) {
	kept, err := store.Open(t.Context(), t.TempDir(), store.Options{}, Room)
	if err != nil {
		t.Fatal(err)
	}
	from := &shelf{}
	part, whole := times("part", 2), made(t, "whole", stepText("part", "x", "x", "y", "y"))
	part.Mark, whole.Mark = "a", "e"
	from.put("part", part)
	from.put("whole", whole)
	s := begin(t, Options{Catalogue: from, State: kept})
	s.model("whole").back = []Source{whole}
	if err := s.LoadAll(t.Context(), []Source{part, whole}); err != nil {
		t.Fatal(err)
	}
	part = times("part", 3)
	part.Mark = "b"
	from.put("part", part)
	if err := s.LoadModel(t.Context(), "part", nil); err != nil {
		t.Fatal(err)
	}
	s.background.Wait()
	if got := remembered(t, s); !slices.Equal(got, []string{"part", "whole"}) {
		t.Errorf("the past of %q", got)
	}
	if len(s.models["whole"].back) == 0 {
		t.Error("that it was rolled back is forgotten as it follows its model")
	}
	if err := errors.Join(s.Close(), kept.Close()); err != nil {
		t.Error(err)
	}
}

// TestRollbackEndsWithAnother: a load that brings some versions ends that a model was rolled back,
// though others of it fail.
func TestRollbackEndsWithAnother(t *testing.T) {
	folder := laid(t, "version_policy { all {} }", 1)
	from := &Folder{Path: folder}
	offers, err := from.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, Options{Catalogue: from}, offers[0].Sources...)
	put1(t, folder, 2)
	if err := errors.Join(s.LoadModel(t.Context(), "m", nil),
		s.Rollback(t.Context(), "m")); err != nil || len(s.models["m"].back) != 1 {
		t.Fatalf("rolled back to %d versions: %v", len(s.models["m"].back), err)
	}
	put1(t, folder, 3)
	if err := os.WriteFile(filepath.Join(folder, "m", "3", "model.onnx"), []byte("nonsense"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadModel(t.Context(), "m", nil); err == nil {
		t.Error("nonsense was loaded")
	}
	if m, err := s.Metadata("m", ""); err != nil || m.Versions[len(m.Versions)-1] != "2" ||
		len(s.models["m"].back) > 0 {
		t.Errorf("versions %v, rolled back to %d (%v)", m.Versions, len(s.models["m"].back), err)
	}
}
