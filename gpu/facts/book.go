package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Book is facts.json.
type Book struct {
	// References are named by what sources begin with.
	References map[string]Reference `json:"references"`
	Rooms      []Room               `json:"rooms"`
	Facts      []Fact               `json:"facts"`
}

// Reference is a page, a header or a public thread.
type Reference struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Room is a part of the page.
type Room struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// Fact is something that is believed of the driver.
type Fact struct {
	// ID is what a check calls it.
	ID     string `json:"id"`
	Room   string `json:"room"`
	Belief string `json:"belief"`
	// Relies are the places that go by it, as FILE or FILE:NAME.
	Relies []string `json:"relies"`
	// Sources are a reference and, after a colon, where in it; none: it is assumed.
	Sources []string `json:"sources"`
	// Breaks is what happens where it is wrong.
	Breaks string `json:"breaks"`
	// Check is the check of gpu/check.sh that settles it; "": none does, and Unchecked says why.
	Check     string `json:"check"`
	Unchecked string `json:"unchecked"`
	// Fake says where the fake driver's profile "hardware" is otherwise on purpose, and why; "": it
	// is as believed.
	Fake string `json:"fake"`
}

func readBook(file string) (*Book, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var b Book
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &b, nil
}

// check returns all that is wrong with the book, whose places are below root.
func (b *Book) check(root string) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	rooms, ids, used := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range b.Rooms {
		rooms[r.Name] = true
	}
	for i := range b.Facts {
		f := &b.Facts[i]
		if ids[f.ID] || f.ID == "" {
			fault("fact %q: its name is missing or another's", f.ID)
		}
		ids[f.ID] = true
		if !rooms[f.Room] {
			fault("fact %s: there is no room %q", f.ID, f.Room)
		}
		for _, err := range f.faults(root) {
			fault("fact %s: %w", f.ID, err)
		}
		for _, s := range f.Sources {
			name, _, _ := strings.Cut(s, ": ")
			used[name] = true
			if _, ok := b.References[name]; !ok {
				fault("fact %s: there is no reference %q", f.ID, name)
			}
		}
	}
	for name, r := range b.References {
		if !used[name] {
			fault("reference %s: no fact names it", name)
		}
		if r.Title == "" || r.URL != "" && !strings.HasPrefix(r.URL, "https://") {
			fault("reference %s: has no title, or an address of another form", name)
		}
	}
	return errors.Join(faults...)
}

// faults is what is wrong with a fact by itself.
func (f *Fact) faults(root string) (faults []error) {
	if len(f.Sources) == 0 && f.Check == "" {
		faults = append(faults, errors.New("has neither a source nor a check"))
	}
	if (f.Check == "") != (f.Unchecked != "") {
		faults = append(faults, errors.New("names a check, or why there is none: one of the two"))
	}
	if f.Belief == "" || f.Breaks == "" || len(f.Relies) == 0 {
		faults = append(faults, errors.New("says not what, who relies on it, or what breaks"))
	}
	for _, place := range f.Relies {
		file, name, _ := strings.Cut(place, ":")
		text, err := os.ReadFile(filepath.Join(root, file))
		switch {
		case err != nil:
			faults = append(faults, err)
		case !bytes.Contains(text, []byte(name)):
			faults = append(faults, fmt.Errorf("%s has no %s", file, name))
		}
	}
	return faults
}
