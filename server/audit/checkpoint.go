package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Checkpoint vouches for the chain up to a record. A file of them has one in JSON a line.
type Checkpoint struct {
	Seq       int64     `json:"seq"`
	Hash      Hash      `json:"hash"`
	Time      time.Time `json:"time"`
	Key       []byte    `json:"key"`       // the public key, in base64
	Signature []byte    `json:"signature"` // Ed25519, in base64
}

// message is what is signed.
func (c *Checkpoint) message() []byte {
	b := append([]byte("weir audit checkpoint 1\x00"), c.Hash[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Seq))
	return binary.BigEndian.AppendUint64(b, uint64(c.Time.UnixNano()))
}

// Checkpoint signs the newest record now, unless it is signed or no checkpoints are kept.
func (l *Log) Checkpoint(ctx context.Context) error {
	if l.o.Key == nil || l.o.Checkpoints == "" {
		return nil
	}
	l.signing.Lock()
	defer l.signing.Unlock()
	var last Record
	err := l.in.Read(ctx, func(tx *sql.Tx) (err error) {
		last, err = l.last(tx)
		return err
	})
	if err != nil || last.Seq == l.signed {
		return err
	}
	c := Checkpoint{Seq: last.Seq, Hash: last.Hash, Time: l.o.Now().UTC(),
		Key: l.o.Key.Public().(ed25519.PublicKey)}
	c.Signature = ed25519.Sign(l.o.Key, c.message())
	if err := c.addTo(l.o.Checkpoints); err != nil {
		return fmt.Errorf("audit: checkpoint: %w", err)
	}
	l.signed = last.Seq
	return nil
}

// addTo adds a line to a file, and waits until it is on the disk. A line that a crash cut off stays
// by itself.
func (c *Checkpoint) addTo(path string) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		end := []byte{'\n'}
		if _, err := f.ReadAt(end, size-1); err == nil && end[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// ReadCheckpoints reads a file of checkpoints. A line that is none is counted in torn: a crash may
// cut one off, and so may a hand.
func ReadCheckpoints(path string) (list []Checkpoint, torn int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c Checkpoint
		if json.Unmarshal(lines.Bytes(), &c) != nil {
			torn++
			continue
		}
		list = append(list, c)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("checkpoints %s: %w", path, err)
	}
	return list, torn, nil
}

// Key reads the key that signs checkpoints, in PKCS #8 and PEM, which only its owner may read; it
// is made where there is none, or an empty file of a process that died as it made one. The public
// key lies beside it, with .pub behind the name.
func Key(path string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 0 {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		return makeKey(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("key %s: no PEM", path)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", path, err)
	}
	key, ok := any.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("key %s is %T: give one of Ed25519", path, any)
	}
	return key, nil
}

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	if err := writePEM(path+publicSuffix, "PUBLIC KEY", public, 0o644); err != nil {
		return nil, err
	}
	return key, writePEM(path, "PRIVATE KEY", b, 0o600)
}

const publicSuffix = ".pub"

// writePEM makes a file, which must not be there unless all may read it.
func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	flags := os.O_WRONLY | os.O_CREATE
	if mode == 0o600 {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, mode)
	if err != nil {
		return err
	}
	err = pem.Encode(f, &pem.Block{Type: kind, Bytes: der})
	return errors.Join(err, f.Sync(), f.Close())
}

// PublicKey reads a key that [Verify] takes: the public one in PKIX and PEM.
func PublicKey(path string) (ed25519.PublicKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("key %s: no PEM", path)
	}
	any, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w: give the file that ends with %s", path, err,
			publicSuffix)
	}
	key, ok := any.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("key %s is %T: give one of Ed25519", path, any)
	}
	return key, nil
}
