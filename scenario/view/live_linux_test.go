package view

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal opens a pseudo-terminal of 100 columns: the side that a person sees, and the side
// that a program writes to.
func pseudoTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	return person, program
}

// TestDumbTerminal holds that nothing is drawn over on a terminal that cannot move its cursor.
func TestDumbTerminal(t *testing.T) {
	_, program := pseudoTerminal(t)
	defer program.Close()
	t.Setenv("TERM", "dumb")
	if v, ok := New(program).(*plain); !ok {
		t.Errorf("it gets a %T", v)
	}
}

// TestLiveOnATerminal draws on a pseudo-terminal: what is shown is seen, the terminal is asked
// nothing, its cursor stays to be seen, and nothing comes after the end.
func TestLiveOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	person, program := pseudoTerminal(t)
	got := make(chan string)
	go func() {
		text, _ := io.ReadAll(person) // ends with an error when the program's side is closed
		got <- string(text)
	}()
	v := New(program)
	if _, ok := v.(*live); !ok {
		t.Fatalf("a terminal gets a %T", v)
	}
	v.Stage("compiling detector")
	v.Live(sample())
	v.Close()
	v.Close()
	v.Stage("after the end")
	program.Close()
	text := <-got
	for _, want := range []string{"compiling detector", "queue", "50 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if strings.Contains(text, "after the end") {
		t.Errorf("more than the view in %q", text)
	}
	// Of what ECMA-48 has, only what moves the cursor up, erases and styles.
	rest := regexp.MustCompile("\x1b\\[[0-9;]*[AJKm]").ReplaceAllString(text, "")
	if strings.Contains(rest, "\x1b") {
		t.Errorf("the terminal is asked for more than to draw: %q", rest)
	}
}
