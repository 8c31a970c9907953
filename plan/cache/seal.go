package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Small files are a magic word of eight bytes, the SHA-256 of the rest, and the rest: their body.

// seal makes a small file of a body.
func seal(magic string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(append([]byte(magic), sum[:]...), body...)
}

// unseal returns the body of a small file.
func unseal(magic string, data []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: it does not begin as %q", errDamaged, magic)
	}
	body := rest[sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, fmt.Errorf("%w: its SHA-256 is wrong", errDamaged)
	}
	return body, nil
}

// readSealed reads a small file of the folder, whose body has at most limit bytes.
func (c *Cache) readSealed(name, magic string, limit int64) ([]byte, error) {
	root, err := c.folder()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := c.openTrusted(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(len(magic))+sha256.Size+limit+1))
	if err != nil {
		return nil, err
	}
	body, err := unseal(magic, data)
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%w: it has more than %d bytes", errDamaged, limit)
	}
	return body, err
}

// writeSealed makes a small file, whose body may have at most limit bytes.
func (c *Cache) writeSealed(name, magic string, limit int, body []byte) error {
	if len(body) > limit {
		return fmt.Errorf("%s has %d bytes, limit %d", name, len(body), limit)
	}
	data := seal(magic, body)
	return c.write(name, int64(len(data)), func(f *os.File) error {
		_, err := f.Write(data)
		return unwritable(err)
	})
}

// receipt says that the content of an entry's file had its SHA-256 when the file had this identity.
// While it has the same identity, a start checks the file only against damage, which takes a
// quarter of the time. The identity is that by which models are known, but without the wait of
// [Settled], since only this user can write the file.
type receipt struct {
	Root key // digest of the entry
	File fileID
	Note note
}

// note says for people what an entry is for. Nothing depends on it.
type note struct {
	Model     string // path
	Sizes     string // of the model's files
	Build     string
	Target    string
	Precision string
	Passes    string // that are off
	Shapes    string
}

const (
	receiptMagic  = "weirseal"
	receiptSuffix = ".seal"
	maxReceipt    = 64 << 10
)

// receiptOf is the name of an entry's receipt.
func receiptOf(entry string) string { return strings.TrimSuffix(entry, planSuffix) + receiptSuffix }

// hasReceipt reports whether an entry was verified when its file was this one.
func (c *Cache) hasReceipt(entry string, r receipt) bool {
	name := receiptOf(entry)
	body, err := c.readSealed(name, receiptMagic, maxReceipt)
	var have receipt
	if err == nil && json.Unmarshal(body, &have) != nil {
		err = fmt.Errorf("%w: no receipt", errDamaged)
	}
	if err != nil {
		c.refuse(name, err)
		return false
	}
	if have.Root != r.Root || have.File != r.File {
		return false
	}
	c.touch(name)
	return true
}

// giveReceipt notes that an entry was verified.
func (c *Cache) giveReceipt(entry string, r receipt) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.writeSealed(receiptOf(entry), receiptMagic, maxReceipt, body)
}
