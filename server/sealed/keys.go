package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"filippo.io/age"
)

// ErrKey is keys that cannot be had.
var ErrKey = errors.New("keys of sealed files")

// Keys gives the keys that open files. It is asked for each file, so that a service which manages
// keys may refuse one at any time. What it gives is not kept.
type Keys interface {
	Identities(ctx context.Context) ([]age.Identity, error)
}

// KeyFile is a file of keys as age-keygen makes it, which only its owner may read.
func KeyFile(path string) Keys { return keyFile(path) }

type keyFile string

// Identities implements Keys.
func (k keyFile) Identities(context.Context) ([]age.Identity, error) {
	path := string(k)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s may be read by others (%v): chmod 600 it", ErrKey, path,
			mode)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer clear(b)
	return parse(path, b)
}

// KeyCommand is a program that prints keys as they are in such a file: a client of a service that
// manages keys. It is run for each file, and has half a minute.
func KeyCommand(program string, args ...string) Keys { return &keyCommand{program, args} }

type keyCommand struct {
	program string
	args    []string
}

// The bounds of a program that prints keys.
const (
	commandLimit = 30 * time.Second
	mostKeys     = 64 << 10 // bytes that it may print
)

// Identities implements Keys.
func (k *keyCommand) Identities(ctx context.Context) ([]age.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	c := exec.CommandContext(ctx, k.program, k.args...)
	c.WaitDelay = time.Second // for what it has started
	out, talk := &bounded{most: mostKeys}, &bounded{most: mostKeys}
	c.Stdout, c.Stderr = out, talk
	defer func() { clear(out.b) }()
	if err := c.Run(); err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case out.refused != nil: // of which the program knows a signal only
			err = out.refused
		}
		said, _, _ := strings.Cut(strings.TrimSpace(string(talk.b)), "\n")
		return nil, fmt.Errorf("%w: %s: %w: %.300s", ErrKey, k.program, err, said)
	}
	return parse(k.program, out.b)
}

// bounded keeps what is written up to a number of bytes, and refuses more.
type bounded struct {
	b       []byte
	most    int
	refused error
}

// Write implements io.Writer.
func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.most {
		w.refused = fmt.Errorf("it prints more than %d bytes", w.most)
		return 0, w.refused
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// parse reads keys that a file or a program has.
func parse(from string, b []byte) ([]age.Identity, error) {
	list, err := age.ParseIdentities(bytes.NewReader(b))
	if err != nil {
		// the error of age may show what it could not read
		return nil, fmt.Errorf("%w: %s has no keys as age-keygen makes them, without a passphrase",
			ErrKey, from)
	}
	return list, nil
}
