// Package sealed reads files that are encrypted at rest, in the format of age
// (age-encryption.org/v1), into memory and nowhere else.
//
// Meet first: [Open], and where its keys come from: [KeyFile], or [KeyCommand] for a service that
// manages keys.
//
// What it protects is what lies on a disk, in a backup or in a bucket: without a key it tells
// nothing but its size, and whoever changes it is found. Not protected is the memory of the process
// that has opened it: against root, a debugger, a core dump, and a disk that the system swaps to
// and does not encrypt.
//
// Concurrency: every function and method may be called by any number of goroutines.
//
// What it refuses: a file that none of the keys opens, or that was changed or cut off
// ([ErrSealed]); a file of keys that others may read, and keys that are guarded by a passphrase
// ([ErrKey]).
package sealed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Extension ends the name of a sealed file, behind the name that it has in plain.
const Extension = ".age"

// ErrSealed is a file that cannot be opened: it is for other keys, or is not as it was made.
var ErrSealed = errors.New("sealed")

// Open reads a sealed file, whole. Of one that was changed nothing is returned.
func Open(ctx context.Context, path string, k Keys) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, fmt.Errorf("%w: %s: no key was given for it", ErrSealed, path)
	}
	identities, err := k.Identities(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	plain, err := decrypt(ctx, f, info.Size(), identities)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("%w: %s: none of the %d keys opens it", ErrSealed, path,
			len(identities))
	case err != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrSealed, path, err)
	}
	return plain, err
}

// decrypt reads a sealed file of so many bytes. What is in it is shorter, so it never moves in
// memory, which would leave a copy behind.
func decrypt(ctx context.Context, f io.Reader, size int64, by []age.Identity) ([]byte, error) {
	b := bufio.NewReader(f)
	from := io.Reader(b)
	if start, _ := b.Peek(len(armor.Header)); string(start) == armor.Header {
		from = armor.NewReader(b)
	}
	r, err := age.Decrypt(from, by...)
	if err != nil {
		return nil, err
	}
	const step = 1 << 20
	plain := make([]byte, 0, size+bytes.MinRead)
	for {
		if err := ctx.Err(); err != nil {
			clear(plain)
			return nil, err
		}
		n, err := r.Read(plain[len(plain):min(cap(plain), len(plain)+step)])
		plain = plain[:len(plain)+n]
		switch {
		case err == io.EOF:
			return plain, nil
		case err == nil && len(plain) == cap(plain):
			err = errors.New("the file grew while it was read")
		}
		if err != nil {
			clear(plain)
			return nil, err
		}
	}
}
