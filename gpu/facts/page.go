package main

import (
	"bytes"
	"fmt"
	"strings"
)

const preface = `# What weir believes of NVIDIA's driver

Generated from ` + "`gpu/facts.json` and `bench/results/gpu`" + ` by ` + "`go generate ./gpu/facts`" + `.

The library, the agent and the fake driver assume all of this. [check.sh](check.sh) settles what a
program can settle, on a machine with a GPU, in under ten minutes: it measures from outside, by the
management library, wall time and other processes, and not by what a program says of itself. Its
result becomes a file below ` + "`bench/results/gpu`" + `, from which the states here are. On the fake
driver's profile "hardware" what it says of memory and processes must be as believed here, unless
the row says that the fake is otherwise on purpose.

`

// page writes facts.md.
func (b *Book) page(found map[string][]Finding) []byte {
	var w bytes.Buffer
	w.WriteString(preface)
	b.summary(&w, found)
	for _, room := range b.Rooms {
		fmt.Fprintf(&w, "\n## %s\n\n", room.Title)
		w.WriteString("| belief | state | settled by | source | if it is wrong | who relies on it |\n")
		w.WriteString("| --- | --- | --- | --- | --- | --- |\n")
		for i := range b.Facts {
			if f := &b.Facts[i]; f.Room == room.Name {
				fmt.Fprintf(&w, "| **%s**: %s | %s | %s | %s | %s | %s |\n", f.ID, f.belief(),
					state(found[f.ID]), f.settled(), b.sources(f), cell(f.Breaks), f.places())
			}
		}
	}
	return w.Bytes()
}

func (b *Book) summary(w *bytes.Buffer, found map[string][]Finding) {
	var confirmed, refuted, assumed, unchecked int
	for _, f := range b.Facts {
		if list := found[f.ID]; len(list) > 0 && list[len(list)-1].State == Confirmed {
			confirmed++
		} else if len(list) > 0 {
			refuted++
		}
		if len(f.Sources) == 0 {
			assumed++
		}
		if f.Check == "" {
			unchecked++
		}
	}
	fmt.Fprintf(w, "%d beliefs: %d confirmed, %d refuted, %d unknown. %d are assumed: no document "+
		"says so.\n%d no check settles.\n", len(b.Facts), confirmed, refuted,
		len(b.Facts)-confirmed-refuted, assumed, unchecked)
}

// cell is text as a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// state is the last finding, and the one before it that said otherwise.
func state(list []Finding) string {
	if len(list) == 0 {
		return string(Unknown)
	}
	last := list[len(list)-1]
	text := last.String()
	for i := len(list) - 2; i >= 0; i-- {
		if list[i].State != last.State {
			return text + "; before, " + list[i].String()
		}
	}
	return text
}

// String says what was found, where and when.
func (f Finding) String() string {
	return fmt.Sprintf("[%s](../%s/%s) on %s, driver %s, %s: %s", f.State, resultsDir, f.File,
		cell(f.GPU), cell(f.Driver), f.Date.Format("2006-01-02"), cell(f.Detail))
}

func (f *Fact) belief() string {
	if f.Fake == "" {
		return cell(f.Belief)
	}
	return cell(f.Belief) + " *The fake is otherwise on purpose: " + cell(f.Fake) + "*"
}

func (f *Fact) settled() string {
	if f.Check == "" {
		return "nothing: " + cell(f.Unchecked)
	}
	return "`" + cell(f.Check) + "`"
}

func (b *Book) sources(f *Fact) string {
	if len(f.Sources) == 0 {
		return "assumed"
	}
	var all []string
	for _, s := range f.Sources {
		name, where, _ := strings.Cut(s, ": ")
		r := b.References[name]
		text := cell(r.Title)
		if r.URL != "" {
			text = "[" + text + "](" + r.URL + ")"
		}
		if where != "" {
			text += ": " + cell(where)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func (f *Fact) places() string {
	var all []string
	for _, p := range f.Relies {
		file, name, ok := strings.Cut(p, ":")
		text := "[" + file + "](../" + file + ")"
		if ok {
			text += " `" + name + "`"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
