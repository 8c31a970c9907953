package audit

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/server/store"
)

// place is where a test's chain lies.
type place struct {
	state       *store.Store
	checkpoints string
	key         ed25519.PrivateKey
}

func newPlace(t *testing.T) *place {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{}, Room)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	dir := t.TempDir()
	key, err := Key(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	return &place{s, filepath.Join(dir, "checkpoints"), key}
}

// open opens the log.
func (p *place) open(t *testing.T) *Log {
	t.Helper()
	l, err := Open(t.Context(), p.state, Options{Key: p.key, Checkpoints: p.checkpoints,
		Every: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// still opens a log that writes when it is told to, not every second.
func (p *place) still(t *testing.T) *Log {
	t.Helper()
	l := p.open(t)
	close(l.stop)
	l.done.Wait()
	l.stop = make(chan struct{}) // of Close
	return l
}

// chain is what is there now.
func (p *place) chain(t *testing.T) ([]Record, []Checkpoint) {
	t.Helper()
	list, err := Read(t.Context(), p.state, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	marks, torn, err := ReadCheckpoints(p.checkpoints)
	if err != nil && !errors.Is(err, os.ErrNotExist) || torn > 0 {
		t.Fatalf("checkpoints: %d torn, %v", torn, err)
	}
	return list, marks
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// each gives records as Verify takes them.
func each(list []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestChain: records are as they were given, in order and in one transaction with what they are
// about; a chain goes on where it ended, and also holds when it comes back from JSON.
func TestChain(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	e := Event{"ann", "token laptop", "10.0.0.1", "account add", "digits", "bob\xff", OK}
	if err := l.Record(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := p.state.Write(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(l.Append(tx, Event{What: "never"}), broken)
	}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = p.open(t)
	if err := l.Record(t.Context(), Event{What: strings.Repeat("é", 400)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list, marks := p.chain(t)
	e.About = "bob\uFFFD"
	if len(list) != 3 || list[1].Event != e || list[1].Count != 1 || len(list[2].What) > 515 {
		t.Fatalf("got %+v", list)
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	list = nil
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	rep, err := Verify(each(list), marks, public(p.key))
	if want := (Report{3, 2, 3}); err != nil || rep != want {
		t.Errorf("got %+v, %v", rep, err)
	}
}

// forge makes the hashes from a record on anew, as one who knows how would.
func forge(list []Record, from int) {
	for i := from; i < len(list); i++ {
		list[i].Seq, list[i].Prev = int64(i+1), Hash{}
		if i > 0 {
			list[i].Prev = list[i-1].Hash
		}
		list[i].Hash = list[i].sum()
	}
}

// TestTampering: whatever is changed, dropped, added, moved or cut off at random is found. Where
// all hashes are made anew, it is found up to the last checkpoint, and only there.
func TestTampering(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := newPlace(t)
	l := p.open(t)
	for i := range 40 {
		if err := l.Record(t.Context(), Event{Who: fmt.Sprint("who", i%3), What: "load",
			Model: fmt.Sprint("m", i%5), Result: OK}); err != nil {
			t.Fatal(err)
		}
		if i%9 == 5 {
			if err := l.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, marks := p.chain(t) // the last records have no checkpoint
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := Verify(each(whole), marks, public(p.key))
	if err != nil || rep.Protected == rep.Records || rep.Protected == 0 {
		t.Fatalf("got %+v, %v", rep, err)
	}
	found, passed, tries := 0, 0, 5_000
	if testing.Short() { // one after the other, which the race detector has nothing to see of
		tries = 500
	}
	for range tries {
		list := slices.Clone(whole)
		first, what := tamper(random, list)
		list = what
		anew := random.IntN(2) == 0
		if anew {
			forge(list, first)
		}
		_, err := Verify(each(list), marks, public(p.key))
		reached := int64(first) >= rep.Protected // the record first+1 and those after it
		switch cut := len(list) < len(whole) && first == len(list); {
		case errors.Is(err, ErrBroken) && !(reached && (anew || cut)):
			found++
		case err == nil && reached && (anew || cut):
			passed++
		default:
			t.Fatalf("record %d, made anew %v, %d records: %v", first+1, anew, len(list), err)
		}
	}
	if found == 0 || passed == 0 {
		t.Errorf("%d found, %d passed", found, passed)
	}
}

// tamper changes a chain, and returns where that begins.
func tamper(random *rand.Rand, list []Record) (first int, changed []Record) {
	i := random.IntN(len(list))
	switch random.IntN(6) {
	case 5:
		r := &list[i] // the same letters, in other fields
		if r.What == "" {
			r.What += "x"
			return i, list
		}
		r.Model, r.What = r.What[len(r.What)-1:]+r.Model, r.What[:len(r.What)-1]
		return i, list
	case 0:
		r := &list[i]
		texts := r.texts()
		switch k := random.IntN(len(texts) + 2); {
		case k < len(texts):
			*texts[k] += "x"
		case k == len(texts):
			r.Count++
		default:
			r.Time = r.Time.Add(time.Nanosecond)
		}
		return i, list
	case 1:
		return i, slices.Delete(list, i, i+1)
	case 2:
		return i, slices.Insert(list, i, list[random.IntN(len(list))])
	case 3:
		i = min(i, len(list)-2)
		j := i + 1 + random.IntN(len(list)-i-1)
		if list[i].Event == list[j].Event {
			list[j].Who = "another" // forged, the two would be one another but for their times
		}
		list[i], list[j] = list[j], list[i]
		return i, list
	default:
		return i, list[:i]
	}
}

// TestCheckpoints: a checkpoint of another key, one that was changed and one without a signature
// are found, and so is a chain that was made anew under another key.
func TestCheckpoints(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	if err := errors.Join(l.Record(t.Context(), Event{What: "load"}), l.Close()); err != nil {
		t.Fatal(err)
	}
	list, marks := p.chain(t)
	other := newPlace(t)
	if err := other.open(t).Close(); err != nil {
		t.Fatal(err)
	}
	otherList, otherMarks := other.chain(t)
	edited := slices.Clone(marks)
	edited[0].Seq = 1
	unsigned := slices.Clone(marks)
	unsigned[0].Signature = nil
	for name, c := range map[string]struct {
		list  []Record
		marks []Checkpoint
	}{"another's chain": {otherList, marks}, "another's checkpoints": {list, otherMarks},
		"all another's": {otherList, otherMarks}, "edited": {list, edited},
		"unsigned": {list, unsigned}, "no records": {nil, nil}} {
		if _, err := Verify(each(c.list), c.marks, public(p.key)); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Verify(each(list), marks, nil); err != nil {
		t.Error(err)
	}
}

// TestCheckpointsOfClose: what was gathered is under the last checkpoint too, and where nothing
// happens none is added.
func TestCheckpointsOfClose(t *testing.T) {
	p := newPlace(t)
	l := p.open(t)
	l.Refused(Event{Who: "eve", What: "load"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list, marks := p.chain(t)
	rep, err := Verify(each(list), marks, public(p.key))
	if err != nil || rep.Records != 2 || rep.Protected != 2 {
		t.Errorf("got %+v, %v", rep, err)
	}
	l = p.open(t)
	for range 5 {
		if err := l.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, now := p.chain(t); len(now) > len(marks)+1 {
		t.Errorf("%d checkpoints were added of one record", len(now)-len(marks))
	}
}

// TestCheckpointFile: a line that a crash cut off is told of and spoils no other.
func TestCheckpointFile(t *testing.T) {
	p := newPlace(t)
	if err := p.open(t).Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(p.checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.checkpoints, append(b, b[:40]...), 0o600); err != nil {
		t.Fatal(err)
	}
	l := p.open(t)
	if err := errors.Join(l.Record(t.Context(), Event{What: "load"}), l.Close()); err != nil {
		t.Fatal(err)
	}
	marks, torn, err := ReadCheckpoints(p.checkpoints)
	if err != nil || torn != 1 || len(marks) != 2 || marks[1].Seq != 2 {
		t.Errorf("%d checkpoints, %d torn, %v", len(marks), torn, err)
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(p.checkpoints), "key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	if again, err := Key(filepath.Join(filepath.Dir(p.checkpoints), "key")); err != nil ||
		!again.Equal(p.key) {
		t.Errorf("the key is another: %v", err)
	}
	if pub, err := PublicKey(filepath.Join(filepath.Dir(p.checkpoints), "key.pub")); err != nil ||
		!pub.Equal(public(p.key)) {
		t.Errorf("the public key is another: %v", err)
	}
}

// TestKeyInterrupted: a process that died as it made the key keeps no other from making one.
func TestKeyInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Key(path)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := PublicKey(path + publicSuffix)
	if err != nil || !pub.Equal(k.Public()) {
		t.Errorf("the public key is another: %v", err)
	}
	if again, err := Key(path); err != nil || !again.Equal(k) {
		t.Errorf("the key is another: %v", err)
	}
}

// TestRefusals: equal refusals become one record with their number, within a second, and more that
// differ than are told apart are counted together.
func TestRefusals(t *testing.T) {
	p := newPlace(t)
	synctest.Test(t, func(t *testing.T) {
		state, err := store.Open(t.Context(), t.TempDir(), store.Options{}, Room)
		if err != nil {
			t.Fatal(err)
		}
		defer state.Close()
		p.state = state
		l := p.open(t)
		for range 1000 {
			l.Refused(Event{Who: "eve", What: "load", Model: "a"})
		}
		l.Refused(Event{Who: "eve", What: "load", Model: "b"})
		time.Sleep(gather + time.Millisecond)
		synctest.Wait()
		list, err := Read(t.Context(), state, 1, 10)
		if err != nil || len(list) != 2 || list[0].Count != 1000 || list[0].Model != "a" ||
			list[0].Result != Refused || list[1].Count != 1 {
			t.Errorf("got %+v, %v", list, err)
		}
		for i := range kindsEach + 7 {
			l.Refused(Event{Who: "eve", Model: fmt.Sprint(i)})
		}
		l.Refused(Event{Who: "bob", Model: "x"}) // whom no flood hides
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		list, err = Read(t.Context(), state, 3, 10_000)
		if err != nil || len(list) != kindsEach+2 || list[kindsEach+1].Model != "x" ||
			list[kindsEach].Who != "eve" || list[kindsEach].Model != "" ||
			list[kindsEach].Count != 7 {
			t.Errorf("%d records, %v", len(list), err)
		}
	})
}

// TestRefusalsAreKept: what cannot be written is written later.
func TestRefusalsAreKept(t *testing.T) {
	p := newPlace(t)
	l := p.still(t)
	defer l.Close()
	l.Refused(Event{What: "load"})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.flush(ended); err == nil {
		t.Fatal("it was written")
	}
	l.Refused(Event{What: "load"})
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, _ := p.chain(t); len(list) != 2 || list[1].Count != 2 {
		t.Errorf("got %+v", list)
	}
}

// TestRefusalsAreBounded: while nothing can be written, such as on a full disk, refusals take no
// more memory than a bound, whoever they are of, and none goes uncounted.
func TestRefusalsAreBounded(t *testing.T) {
	p := newPlace(t)
	l := p.still(t)
	defer l.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const rounds, each = 4, 2 * kinds
	for round := range rounds {
		for i := range each {
			l.Refused(Event{Who: fmt.Sprint("a", i%(2*kinds)), Model: fmt.Sprint(round, i)})
		}
		if err := l.flush(ended); err == nil {
			t.Fatal("it was written")
		}
	}
	if n := len(l.refused); n > 2*kinds+2 {
		t.Errorf("%d are kept", n)
	}
	if err := l.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, _ := p.chain(t)
	all := int64(0)
	for _, r := range list[1:] {
		all += r.Count
	}
	if all != rounds*each {
		t.Errorf("%d are recorded, of %d", all, rounds*each)
	}
}
