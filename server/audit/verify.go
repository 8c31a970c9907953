package audit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
)

// ErrBroken is a chain that is not as it was written.
var ErrBroken = errors.New("the audit was tampered with")

// Report is what [Verify] found of a chain that holds.
type Report struct {
	Records     int64 `json:"records"`
	Checkpoints int   `json:"checkpoints"` // that were compared
	// Protected is the last record that a checkpoint vouches for; those after it may have been cut
	// off or written anew.
	Protected int64 `json:"protected"`
}

// Verify holds a chain, given in order, against its hashes and its checkpoints. Checkpoints must be
// signed by key; a nil one takes each checkpoint's own, which shows only that they were not changed
// by somebody without any key. An error of the records is returned; what does not hold is
// [ErrBroken], with the first place.
func Verify(records iter.Seq2[Record, error], checkpoints []Checkpoint, key ed25519.PublicKey,
) (Report, error) {
	due := map[int64][]Checkpoint{}
	var rep Report
	for _, c := range checkpoints {
		if err := c.verify(key); err != nil {
			return rep, err
		}
		due[c.Seq] = append(due[c.Seq], c)
		rep.Protected = max(rep.Protected, c.Seq)
	}
	rep.Checkpoints = len(checkpoints)
	var last Record
	for r, err := range records {
		if err != nil {
			return rep, err
		}
		if err := r.follows(&last); err != nil {
			return rep, err
		}
		for _, c := range due[r.Seq] {
			if c.Hash != r.Hash {
				return rep, fmt.Errorf("%w: record %d is not the one that the checkpoint of %s "+
					"signed", ErrBroken, r.Seq, c.Time.Format(timeFormat))
			}
		}
		rep.Records++
		last = r
	}
	if rep.Records < rep.Protected {
		return rep, fmt.Errorf("%w: it ends with record %d, and a checkpoint signed record %d",
			ErrBroken, rep.Records, rep.Protected)
	}
	if rep.Records == 0 {
		return rep, fmt.Errorf("%w: it has no records, and every chain has a first", ErrBroken)
	}
	return rep, nil
}

const timeFormat = "2006-01-02 15:04:05"

// follows reports why a record cannot be the one after last.
func (r *Record) follows(last *Record) error {
	switch {
	case r.Seq != last.Seq+1:
		return fmt.Errorf("%w: record %d is followed by %d", ErrBroken, last.Seq, r.Seq)
	case r.Prev != last.Hash:
		return fmt.Errorf("%w: record %d does not follow the one before it", ErrBroken, r.Seq)
	case r.Hash != r.sum():
		return fmt.Errorf("%w: record %d was changed", ErrBroken, r.Seq)
	}
	return nil
}

func (c *Checkpoint) verify(key ed25519.PublicKey) error {
	switch {
	case key != nil && !bytes.Equal(key, c.Key):
		return fmt.Errorf("%w: the checkpoint of record %d was signed by another key", ErrBroken,
			c.Seq)
	case len(c.Key) != ed25519.PublicKeySize || !ed25519.Verify(c.Key, c.message(), c.Signature):
		return fmt.Errorf("%w: the checkpoint of record %d has no valid signature", ErrBroken,
			c.Seq)
	}
	return nil
}
