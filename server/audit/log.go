package audit

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/server/store"
)

// gather is for how long events are gathered that clients may repeat. Meanwhile kinds is how many
// that differ are told apart, and kindsEach how many of one account. Beyond that they are counted
// by account, and by none for so many accounts more.
const (
	gather    = time.Second
	kinds     = 1024
	kindsEach = 32
)

// Options say where checkpoints go.
type Options struct {
	// Key signs the checkpoints; without one there are none.
	Key ed25519.PrivateKey
	// Checkpoints is the file to which checkpoints are added; "" for none.
	Checkpoints string
	// Every is how long records wait for a checkpoint at most; 0 stands for a minute.
	Every time.Duration
	// Now is the clock; nil stands for time.Now.
	Now func() time.Time
	// Log is told what cannot be recorded; nil stands for slog.Default.
	Log *slog.Logger
}

// Log is the chain of a state that is open for writing. It needs [Log.Close].
type Log struct {
	o    Options
	in   *store.Store
	stop chan struct{}
	done sync.WaitGroup

	signing sync.Mutex
	signed  int64 // the record of the last checkpoint

	mu      sync.Mutex
	refused map[Event]*refusal
	each    map[string]int // kinds of an account that are told apart
	kinds   int64          // ever
}

// refusal is how often an event happened that is gathered, and when first.
type refusal struct {
	order int64 // among the others
	first time.Time
	count int64
}

// Open continues the chain of a state, which has the tables of [Room], or begins it.
func Open(ctx context.Context, in *store.Store, o Options) (*Log, error) {
	o.Every = cmp.Or(o.Every, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	l := &Log{o: o, in: in, stop: make(chan struct{})}
	l.empty()
	if err := in.Write(ctx, func(tx *sql.Tx) error {
		last, err := l.last(tx)
		if err != nil || last.Seq > 0 {
			return err
		}
		// no two chains begin alike, so one cannot pass for the other
		return l.Append(tx, Event{What: "audit begins", About: rand.Text(), Result: OK})
	}); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l.done.Go(l.work)
	return l, nil
}

// last is the newest record, a zero one where there is none.
func (l *Log) last(tx *sql.Tx) (r Record, err error) {
	err = r.scan(tx.QueryRow("SELECT " + columns + " FROM audit_records ORDER BY seq DESC LIMIT 1"))
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, nil
	}
	return r, err
}

// Append records an event in the transaction of the change that it is about: either both are there
// or neither. tx is one of [store.Store.Write].
func (l *Log) Append(tx *sql.Tx, e Event) error { return l.append(tx, e, l.o.Now(), 1) }

func (l *Log) append(tx *sql.Tx, e Event, at time.Time, count int64) error {
	last, err := l.last(tx)
	if err != nil {
		return err
	}
	r := Record{Seq: last.Seq + 1, Time: at.UTC(), Event: e.clean(), Count: count, Prev: last.Hash}
	r.Hash = r.sum()
	return r.insert(tx)
}

// Record records an event in a transaction of its own.
func (l *Log) Record(ctx context.Context, e Event) error {
	err := l.in.Write(ctx, func(tx *sql.Tx) error { return l.Append(tx, e) })
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Refused records, within about a second, that a right was refused.
func (l *Log) Refused(e Event) {
	e.Result = Refused
	l.Often(e)
}

// Often records, within about a second, an event that clients may repeat as often as they like:
// equal ones become one record.
func (l *Log) Often(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(e.clean(), refusal{first: l.o.Now(), count: 1})
}

// count adds what is known of an event to what was gathered. l.mu is held.
func (l *Log) count(e Event, more refusal) {
	apart := l.refused[e] == nil && len(l.refused) < kinds && l.each[e.Who] < kindsEach
	if l.refused[e] == nil && !apart {
		e = Event{Who: e.Who, What: "more than are told apart", Result: e.result()}
		if l.refused[e] == nil && len(l.refused) >= 2*kinds {
			e.Who = ""
		}
	}
	r := l.refused[e]
	if r == nil {
		l.kinds++
		r = &refusal{order: l.kinds, first: more.first}
		l.refused[e] = r
	}
	if apart {
		l.each[e.Who]++
	}
	r.count += more.count
}

// empty begins to gather anew. l.mu is held.
func (l *Log) empty() { l.refused, l.each = map[Event]*refusal{}, map[string]int{} }

// work writes what was gathered, and checkpoints, until Close.
func (l *Log) work() {
	write, sign := time.NewTicker(gather), time.NewTicker(l.o.Every)
	defer write.Stop()
	defer sign.Stop()
	ctx := context.Background()
	for {
		var err error
		select {
		case <-l.stop:
			return
		case <-write.C:
			err = l.flush(ctx)
		case <-sign.C:
			err = l.Checkpoint(ctx)
		}
		if err != nil {
			l.o.Log.Error("the audit is behind", "error", err)
		}
	}
}

// flush writes what was gathered. What cannot be written is kept, and what comes later counts with
// it, so that a full disk does not fill the memory.
func (l *Log) flush(ctx context.Context) error {
	l.mu.Lock()
	some := l.refused
	l.empty()
	l.mu.Unlock()
	if len(some) == 0 {
		return nil
	}
	err := l.in.Write(ctx, func(tx *sql.Tx) error {
		for _, e := range inOrder(some) {
			if err := l.append(tx, e, some[e].first, some[e].count); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	later := l.refused
	l.empty()
	for _, list := range []map[Event]*refusal{some, later} {
		for _, e := range inOrder(list) {
			l.count(e, *list[e])
		}
	}
	return fmt.Errorf("audit: %w", err)
}

// inOrder are events in the order in which they first happened.
func inOrder(some map[Event]*refusal) []Event {
	list := slices.Collect(maps.Keys(some))
	sorting.By(list, func(a, b Event) int { return cmp.Compare(some[a].order, some[b].order) })
	return list
}

// Close writes what was gathered, and a last checkpoint. The state must still be open.
func (l *Log) Close() error {
	close(l.stop)
	l.done.Wait()
	ctx := context.Background()
	return errors.Join(l.flush(ctx), l.Checkpoint(ctx))
}

// Read returns up to limit records that follow the record after, in order.
func Read(ctx context.Context, in *store.Store, after int64, limit int) ([]Record, error) {
	return query(ctx, in, "seq > ? ORDER BY seq", after, limit)
}

// Newest returns up to limit records that precede the record before, or the end where that is 0,
// the newest first.
func Newest(ctx context.Context, in *store.Store, before int64, limit int) ([]Record, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	return query(ctx, in, "seq < ? ORDER BY seq DESC", before, limit)
}

// query returns up to limit records of those that the condition on n picks.
func query(ctx context.Context, in *store.Store, which string, n int64, limit int) ([]Record,
	error) {
	list := []Record{}
	err := in.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT "+columns+" FROM audit_records WHERE "+which+" LIMIT ?", n,
			limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r Record
			if err := r.scan(rows); err != nil {
				return err
			}
			list = append(list, r)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return list, nil
}
