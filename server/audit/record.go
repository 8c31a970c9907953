package audit

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/store"
)

// Room is the audit's part of the state.
var Room = store.Room{Name: "audit", Migrations: []string{`
CREATE TABLE audit_records (
	seq INTEGER PRIMARY KEY,
	time INTEGER NOT NULL, -- nanoseconds since 1970
	who TEXT NOT NULL,
	via TEXT NOT NULL,
	peer TEXT NOT NULL,
	what TEXT NOT NULL,
	model TEXT NOT NULL,
	about TEXT NOT NULL,
	result TEXT NOT NULL,
	count INTEGER NOT NULL,
	prev BLOB NOT NULL,
	hash BLOB NOT NULL
) STRICT;
`}}

// Results of events. One that failed has the reason behind it: "failed: no such model".
const (
	OK      = "ok"
	Refused = "refused"
	Failed  = "failed"
)

// Event is what a record is about.
type Event struct {
	Who    string `json:"who"`    // the account; "" where nobody had to say
	Via    string `json:"via"`    // what showed it, such as "token laptop"
	Peer   string `json:"peer"`   // the client's address, without its port
	What   string `json:"what"`   // such as "account add", or the endpoint that was asked
	Model  string `json:"model"`  // the model, where it is about one
	About  string `json:"about"`  // what else it is about, such as the other account
	Result string `json:"result"` // OK, Refused or Failed
}

// Hash is that of a record. In JSON it is hexadecimal.
type Hash [sha256.Size]byte

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return hex.ErrLength
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Record is a link of the chain.
type Record struct {
	Seq  int64     `json:"seq"`  // from 1, without gaps
	Time time.Time `json:"time"` // when it happened; of several equal events, the first
	Event
	Count int64 `json:"count"` // how many equal events it stands for
	Prev  Hash  `json:"prev"`  // the hash of the record before it, zeros of the first
	Hash  Hash  `json:"hash"`
}

// texts are the fields of an event in the order in which they are hashed.
func (e *Event) texts() []*string {
	return []*string{&e.Who, &e.Via, &e.Peer, &e.What, &e.Model, &e.About, &e.Result}
}

// result is the event's result without its reason.
func (e *Event) result() string {
	if strings.HasPrefix(e.Result, Failed) {
		return Failed
	}
	return e.Result
}

// clean cuts texts, which may come from clients, and makes them what JSON can hold: a record must
// have the same hash when it comes back from there.
func (e Event) clean() Event {
	const most = 512
	for _, text := range e.texts() {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), most)], "\uFFFD")
	}
	return e
}

// sum is the hash that a record should have: of all its fields, each text behind its length.
func (r *Record) sum() Hash {
	b := append([]byte("weir audit 1\x00"), r.Prev[:]...)
	for _, n := range []int64{r.Seq, r.Time.UnixNano(), r.Count} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range r.texts() {
		b = binary.BigEndian.AppendUint64(b, uint64(len(*text)))
		b = append(b, *text...)
	}
	return sha256.Sum256(b)
}

const columns = "seq, time, who, via, peer, what, model, about, result, count, prev, hash"

// insert adds a record to the chain.
func (r *Record) insert(tx *sql.Tx) error {
	_, err := tx.Exec("INSERT INTO audit_records ("+columns+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
		r.Seq, r.Time.UnixNano(), r.Who, r.Via, r.Peer, r.What, r.Model, r.About, r.Result,
		r.Count, r.Prev[:], r.Hash[:])
	return err
}

// scan reads a row of the columns.
func (r *Record) scan(row interface{ Scan(...any) error }) error {
	var ns int64
	var prev, hash []byte
	err := row.Scan(&r.Seq, &ns, &r.Who, &r.Via, &r.Peer, &r.What, &r.Model, &r.About, &r.Result,
		&r.Count, &prev, &hash)
	r.Time = time.Unix(0, ns).UTC()
	copy(r.Prev[:], prev)
	copy(r.Hash[:], hash)
	return err
}
