package terminal

import (
	"bytes"
	"io"
	"os"
	"testing"
)

type wrapped struct{ io.Writer }

func (w wrapped) Unwrap() io.Writer { return w.Writer }

// TestTerminal holds that a terminal is one behind other writers, too, and what the environment
// says of it.
func TestTerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	defer f.Close()
	for _, name := range []string{"TERM", "NO_COLOR", "COLUMNS"} {
		t.Setenv(name, "")
	}
	for _, w := range []io.Writer{f, wrapped{f}, wrapped{wrapped{f}}} {
		if !Is(w) || !Live(w) || !Color(w) {
			t.Errorf("%T: terminal %v, live %v, colours %v", w, Is(w), Live(w), Color(w))
		}
	}
	t.Setenv("NO_COLOR", "1")
	if !Live(f) || Color(f) {
		t.Error("NO_COLOR is not heeded")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if !Is(f) || Live(f) || Color(f) {
		t.Error("TERM=dumb is not heeded")
	}
	var b bytes.Buffer
	for _, w := range []io.Writer{&b, wrapped{&b}} {
		if Is(w) || Live(w) || Color(w) || Width(w) != 0 || Height(w) != 0 {
			t.Errorf("%T is no terminal", w)
		}
	}
	t.Setenv("COLUMNS", "40")
	if Width(&b) != 40 {
		t.Errorf("COLUMNS=40: width %d", Width(&b))
	}
}

func TestLocale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", true}, {"C", "", "en_US.UTF-8", false}, {"POSIX", "", "", false},
		{"C.UTF-8", "C", "C", true}, {"", "C", "en_US.UTF-8", false}, {"", "", "C", false},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", c.ctype)
		t.Setenv("LANG", c.lang)
		want := "a…█ é"
		if !c.want {
			want = "a~# é"
		}
		if got := Text("a…█ é"); UTF8() != c.want || got != want {
			t.Errorf("%+v: %v, %q", c, UTF8(), got)
		}
	}
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		cut  string // to 5
	}{
		{"", 0, ""}, {"abcde", 5, "abcde"}, {"abcdef", 6, "abcd…"}, {"模型模型", 8, "模型…"},
		{"e\u0301tude", 5, "e\u0301tude"}, {"a模型b", 6, "a模…"}, {"🚀🚀🚀", 6, "🚀🚀…"},
	} {
		if n, cut := Columns(c.text), Cut(c.text, 5); n != c.n || cut != c.cut {
			t.Errorf("%q: %d columns, cut %q, want %d and %q", c.text, n, cut, c.n, c.cut)
		}
	}
	if got := Cut("abc", 0); got != "" {
		t.Errorf("no columns: %q", got)
	}
	if a, b := Pad("模", 4), Pad("模", -4); a != "模  " || b != "  模" {
		t.Errorf("%q, %q", a, b)
	}
	const want = "a bc\n30 %\nd-long-word\ne"
	if got := Wrap("a  bc 30 % d-long-word e", 4); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPlain holds that what is not shown is written as Go has it, and that the rest stays.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{"": "", "a é 模 e\u0301 \\n…": "a é 模 e\u0301 \\n…",
		"\x1b[2Jm": `\x1b[2Jm`, "a\nrecord\r\tx": `a\nrecord\r\tx`, "a\u202eb": `a\u202eb`,
		"\xff\x00é": `\xff\x00é`, "\uFFFD\u0085": `�\u0085`} {
		if got := Plain(text); got != want || Plain(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFit holds that lines are broken only where they are too long, with numbers whole.
func TestFit(t *testing.T) {
	const line = "  plan: 12 steps, 3.5 MiB"
	for width, want := range map[int]string{0: line, 25: line, 24: "  plan: 12 steps,\n    3.5 MiB",
		12: "  plan: 12\n    steps,\n    3.5 MiB"} {
		if got := Fit(line, width); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 12: "12 B", 1023: "1023 B", 1024: "1 KiB",
		1<<20 - 1: "1 MiB", 25234234000: "23.5 GiB", 1007 << 20: "1007 MiB", 1536: "1.5 KiB",
		999 << 10: "999 KiB", 1<<63 - 1: "8 EiB", -2048: "-2 KiB", 10230: "9.99 KiB",
		10239: "10 KiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}
