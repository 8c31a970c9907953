package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// MessageSize is the size of every message. Some are followed by text in the same packet.
	MessageSize = 64
	// MaxText is the most text that can follow a message.
	MaxText = 32768
	// MaxPacket is the size of the largest packet.
	MaxPacket = MessageSize + MaxText
)

// ErrMessage is the kind of all errors of [Decode].
var ErrMessage = errors.New("malformed message")

// Kind says what a message is.
type Kind uint32

// Kinds of messages, from clients up to 15 and from the agent above.
const (
	KindHello   Kind = 1  // a process asks for a slot
	KindWant    Kind = 2  // a process waits at the gate
	KindDrained Kind = 3  // nothing of it is in flight after a close
	KindIdle    Kind = 4  // it has had no work for a while with the gate open
	KindBye     Kind = 5  // it gives its slot back
	KindCreate  Kind = 6  // a controller asks for a job
	KindTop     Kind = 7  // somebody wants to see the snapshots
	KindNote    Kind = 8  // a process looked up a driver call that it does not know
	KindSet     Kind = 9  // a job is to have another share; its name follows as text
	KindPolicy  Kind = 10 // another policy is to decide; it follows as text
	KindMeasure Kind = 11 // a process wants to know what the device says that it holds
	KindStays   Kind = 12 // what of its memory cannot be moved; comes before Moved
	KindMoved   Kind = 13 // it has done what Header.Move ordered, or could not
	KindFreeze  Kind = 14 // a job's memory is to be moved to the host, or back; its name follows
	KindRelease Kind = 15 // a claim is not to be kept any more; its name follows

	KindWelcome  Kind = 16 // answers Hello; brings the page's descriptor
	KindRefused  Kind = 17 // answers what is refused; text follows
	KindCreated  Kind = 18 // answers Create; brings the page's descriptor; text follows
	KindSnapshot Kind = 19 // answers Top; text follows
	KindDone     Kind = 20 // answers Set, Policy, Freeze and Release; text follows
)

// Flags of messages.
const (
	// FlagRejoin in Hello and Create: the sender had its slot or job from an agent that is gone. It
	// sends the page's descriptor along if it has it.
	FlagRejoin = 1 << 0
	// FlagFake in Create: the controller wants a device of the fake driver; without it, a real one.
	FlagFake = 1 << 2
	// FlagService in Created: the agent is kept running by somebody else, who will start another if
	// it ends.
	FlagService = 1 << 3
	// FlagNotes in Welcome: the agent takes Note.
	FlagNotes = 1 << 4
	// FlagMeasures in Welcome: the agent answers Measure, in the slot.
	FlagMeasures = 1 << 5
	// FlagGang in Create: the job is a rank of a gang, which follows its name after a NUL.
	FlagGang = 1 << 6
	// FlagMore in Snapshot: the text goes on in the next one.
	FlagMore = 1 << 1
	// FlagMovable in Create: the programs' memory is to be such as can be moved to the host.
	FlagMovable = 1 << 7
	// FlagThaw in Freeze: the memory is to be moved back.
	FlagThaw = 1 << 8
	// FlagKeep in Create: the job is a claim's, which follows its name after a NUL, and lives until
	// the claim is released. The same claim gets the same job again.
	FlagKeep = 1 << 9
)

// Fields of Set say which parts of a share are to change.
const (
	FieldMemory  = 1 << 0
	FieldCompute = 1 << 1
	FieldLimit   = 1 << 2
	FieldClass   = 1 << 3
)

// Codes of Moved.
const (
	MovedAll     = 0 // it is done
	MovedBusy    = 1 // the device was not done with the memory, or a stream was being captured
	MovedHost    = 2 // the host has not so much memory, or not for this
	MovedDevice  = 3 // the device has not so much memory free
	MovedFailed  = 4 // the driver refused
	MovedSpill   = 5 // the folder for spilling failed it
	MovedDamaged = 6 // what the folder gives back is not what was written
)

// NoDevice in Set and Freeze stands for whichever device has the job.
const NoDevice = 0xffffffff

// Code says why something was refused.
type Code uint32

// Codes of Refused. A client may try again after RefusedBusy, and after RefusedUnknownJob if it has
// been with the job before: the agent may not yet have been told of it again.
const (
	RefusedProtocol    Code = 1 // the message was malformed or out of place
	RefusedVersion     Code = 2 // the two sides are of different versions
	RefusedUnknownJob  Code = 3 // there is no job with this token
	RefusedCredentials Code = 4 // the peer is not the user whose job it is
	RefusedFull        Code = 5 // the job has no free slot, or the agent no room
	RefusedAdmission   Code = 6 // the share asked for cannot be given
	RefusedDevice      Code = 7 // there is no such device
	RefusedPage        Code = 8 // the page sent along is not one, or not this job's
	RefusedBusy        Code = 9 // the agent is closing down
)

var codeNames = [...]string{
	RefusedProtocol: "protocol", RefusedVersion: "version", RefusedUnknownJob: "unknown_job",
	RefusedCredentials: "credentials",
	RefusedFull:        "full", RefusedAdmission: "admission", RefusedDevice: "device",
	RefusedPage: "page", RefusedBusy: "busy",
}

// String returns the code's name, such as "unknown_job".
func (c Code) String() string {
	if c > 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint32(c))
}

// Token names a job to those who may join it.
type Token [16]byte

// String returns the token as 32 hexadecimal digits.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// ParseToken reads what String writes.
func ParseToken(s string) (Token, error) {
	var t Token
	if len(s) != 2*len(t) {
		return t, fmt.Errorf("token of %d characters: want 32 hexadecimal digits", len(s))
	}
	if _, err := hex.Decode(t[:], []byte(s)); err != nil {
		return t, fmt.Errorf("token: %w", err)
	}
	return t, nil
}

// head begins every message.
type head struct {
	Kind  Kind   `c:"kind" doc:"WEIR_MSG_*"`
	Flags uint32 `c:"flags" doc:"WEIR_FLAG_*"`
}

// Message is one of the message types of this package.
type Message interface {
	// Append writes the message's 64 bytes.
	Append(b []byte) []byte
}

// Hello asks for a slot in the job with this token. With FlagRejoin, Slot is the one held before.
type Hello struct {
	head
	Token      Token     `c:"token"`
	PID        uint32    `c:"pid" doc:"in the sender's namespace; the agent goes by the socket's credentials"`
	Version    uint32    `c:"version" doc:"WEIR_VERSION"`
	MemUsed    uint64    `c:"mem_used" doc:"rejoin: bytes held now"`
	Slot       uint32    `c:"slot" doc:"rejoin: the slot held before, else WEIR_NO_SLOT"`
	Generation uint32    `c:"generation" doc:"rejoin: agent_generation of the agent before"`
	Reserved   [4]uint32 `c:"reserved"`
}

// Signal is Want, Drained, Idle, Bye or Measure.
type Signal struct {
	head
	Slot     uint32     `c:"slot"`
	Gate     uint32     `c:"gate" doc:"the gate's value that it is about; MEASURE: ask_seq"`
	Reserved [12]uint32 `c:"reserved"`
}

// NoteSize is the most of a call's name that a Note holds.
const NoteSize = 52

// Note names a driver call that the process looked up and the library does not know. It is passed
// through, and what it does is not counted.
type Note struct {
	head
	Slot uint32         `c:"slot"`
	Call [NoteSize]byte `c:"call" doc:"padded with zeros"`
}

// Name returns the call's name, as far as it is one: letters, digits and underscores.
func (m Note) Name() string {
	name, _, _ := bytes.Cut(m.Call[:], []byte{0})
	for i, c := range name {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			name = name[:i]
			break
		}
	}
	return string(name)
}

// Create asks for a job with this share of a device. The name follows as text. The job lives until
// the socket is closed and no process is attached. With FlagRejoin, Token is the one that the job
// had. With FlagKeep it is the one that the claim's job is to have if there is none yet, or zeros.
type Create struct {
	head
	Token      Token  `c:"token" doc:"rejoin, keep: the job's, else zeros"`
	Memory     uint64 `c:"memory" doc:"cap in bytes; 0: all that is not promised"`
	ComputePPM uint32 `c:"compute_ppm"`
	LimitPPM   uint32 `c:"limit_ppm"`
	Class      uint32 `c:"class" doc:"WEIR_CLASS_*"`
	Device     uint32 `c:"device" doc:"ordinal"`
	PID        uint32 `c:"pid"`
	Version    uint32 `c:"version" doc:"WEIR_VERSION"`
	InflightUS uint32 `c:"inflight_us" doc:"in-flight bound; 0: the agent's"`
	TextLen    uint32 `c:"text_len" doc:"bytes of the name that follow"`
}

// Top asks for a snapshot every so often until the socket is closed.
type Top struct {
	head
	IntervalMS uint32     `c:"interval_ms" doc:"0: one snapshot"`
	Reserved   [13]uint32 `c:"reserved"`
}

// Set asks for another share for the job whose name follows as text. What Fields does not name
// stays as it is.
type Set struct {
	head
	Memory     uint64    `c:"memory" doc:"cap in bytes"`
	Fields     uint32    `c:"fields" doc:"WEIR_FIELD_*: what is to change"`
	ComputePPM uint32    `c:"compute_ppm"`
	LimitPPM   uint32    `c:"limit_ppm"`
	Class      uint32    `c:"class" doc:"WEIR_CLASS_*"`
	Device     uint32    `c:"device" doc:"ordinal, or WEIR_NO_DEVICE: whichever has the job"`
	Version    uint32    `c:"version" doc:"WEIR_VERSION"`
	TextLen    uint32    `c:"text_len" doc:"bytes of the name that follow"`
	Reserved   [5]uint32 `c:"reserved"`
}

// Policy asks for another policy, which follows as text with its parameters.
type Policy struct {
	head
	Version  uint32     `c:"version" doc:"WEIR_VERSION"`
	TextLen  uint32     `c:"text_len" doc:"bytes of the policy that follow"`
	Reserved [12]uint32 `c:"reserved"`
}

// Stays says what of a process's memory cannot be moved, in bytes.
type Stays struct {
	head
	Slot     uint32 `c:"slot"`
	Pad      uint32 `c:"pad"`
	Contexts uint64 `c:"contexts" doc:"contexts and modules"`
	Managed  uint64 `c:"managed"`
	Arrays   uint64 `c:"arrays"`
	Mapped   uint64 `c:"mapped" doc:"that the program maps itself, or has of other interfaces"`
	Pools    uint64 `c:"pools" doc:"stream-ordered, and of graphs"`
	Small    uint64 `c:"small" doc:"allocations below the size from which they are moved"`
}

// Moved says that a process has done what an order of Header.Move says, or why it could not: then
// its memory is where it was before.
type Moved struct {
	head
	Slot   uint32 `c:"slot"`
	Move   uint32 `c:"move" doc:"the order's value"`
	Code   uint32 `c:"code" doc:"WEIR_MOVED_*"`
	Result uint32 `c:"result" doc:"MOVED_FAILED: the driver's CUresult; MOVED_SPILL: errno"`
	Bytes  uint64 `c:"bytes" doc:"moved now"`
	Needs  uint64 `c:"needs" doc:"MOVED_HOST, MOVED_DEVICE: bytes that there must be; MOVED_SPILL, MOVED_DAMAGED: of what"`
	Has    uint64 `c:"has" doc:"and that there are"`
	Opened uint64 `c:"opened" doc:"memory of other processes that it has open, which stays"`
	NS     uint64 `c:"ns" doc:"how long it took"`
}

// Freeze asks for a job's memory to be moved to the host or, with FlagThaw, back. The job's name
// follows as text.
type Freeze struct {
	head
	Device   uint32     `c:"device" doc:"ordinal, or WEIR_NO_DEVICE: whichever has the job"`
	Version  uint32     `c:"version" doc:"WEIR_VERSION"`
	TextLen  uint32     `c:"text_len" doc:"bytes of the name that follow"`
	Reserved [11]uint32 `c:"reserved"`
}

// Release ends what keeps the job of a claim, whose name follows as text: the job ends when no
// process is attached to it. Of a claim that is not known nothing is to be done.
type Release struct {
	head
	Version  uint32     `c:"version" doc:"WEIR_VERSION"`
	TextLen  uint32     `c:"text_len" doc:"bytes of the claim's name that follow"`
	Reserved [12]uint32 `c:"reserved"`
}

// Welcome gives a process its slot. The page's descriptor comes along.
type Welcome struct {
	head
	Slot       uint32     `c:"slot"`
	Device     uint32     `c:"device" doc:"ordinal"`
	PageSize   uint32     `c:"page_size"`
	Generation uint32     `c:"generation"`
	Reserved   [10]uint32 `c:"reserved"`
}

// Refused says why a message was refused; the agent then closes the socket. A text for
// people follows.
type Refused struct {
	head
	Code     Code       `c:"code" doc:"WEIR_REFUSED_*"`
	TextLen  uint32     `c:"text_len" doc:"bytes of text that follow"`
	Reserved [12]uint32 `c:"reserved"`
}

// Created gives a controller its job. The page's descriptor comes along and the name that the job
// was given follows as text, with the pipe directory of MPS where its processes must be clients.
type Created struct {
	head
	Token       Token  `c:"token"`
	Memory      uint64 `c:"memory" doc:"the cap in bytes"`
	MemoryTotal uint64 `c:"memory_total" doc:"the device's memory in bytes"`
	PageSize    uint32 `c:"page_size"`
	Device      uint32 `c:"device" doc:"ordinal"`
	Generation  uint32 `c:"generation"`
	TextLen     uint32 `c:"text_len" doc:"bytes of text that follow"`
	PipeLen     uint32 `c:"pipe_len" doc:"so many of them at the end are the pipe directory"`
	// ThreadPercent is as in the page.
	ThreadPercent uint32 `c:"thread_percent"`
}

// Snapshot brings a part of a JSON object as text; FlagMore says that another follows.
type Snapshot struct {
	head
	TextLen  uint32     `c:"text_len" doc:"bytes of text that follow"`
	Reserved [13]uint32 `c:"reserved"`
}

// Done says that what was asked for holds from here on. The share as JSON, or the policy, follows
// as text.
type Done struct {
	head
	TextLen  uint32     `c:"text_len" doc:"bytes of text that follow"`
	Reserved [13]uint32 `c:"reserved"`
}

// NewHello, and each of the functions like it, sets the kind of a message.
func NewHello(m Hello, flags uint32) Hello { m.head = head{KindHello, flags}; return m }

// NewSignal makes Want, Drained, Idle, Bye or Measure.
func NewSignal(k Kind, slot, gate uint32) Signal {
	return Signal{head: head{Kind: k}, Slot: slot, Gate: gate}
}

// NewNote sets the kind, and cuts the name to what fits.
func NewNote(slot uint32, call string) Note {
	m := Note{head: head{Kind: KindNote}, Slot: slot}
	copy(m.Call[:], call)
	return m
}

// NewCreate sets the kind.
func NewCreate(m Create, flags uint32) Create { m.head = head{KindCreate, flags}; return m }

// NewTop sets the kind.
func NewTop(m Top) Top { m.head = head{Kind: KindTop}; return m }

// NewSet sets the kind.
func NewSet(m Set) Set { m.head = head{Kind: KindSet}; return m }

// NewPolicy sets the kind.
func NewPolicy(m Policy) Policy { m.head = head{Kind: KindPolicy}; return m }

// NewStays sets the kind.
func NewStays(m Stays) Stays { m.head = head{Kind: KindStays}; return m }

// NewMoved sets the kind.
func NewMoved(m Moved) Moved { m.head = head{Kind: KindMoved}; return m }

// NewFreeze sets the kind, with FlagThaw if the memory is to come back.
func NewFreeze(m Freeze, thaw bool) Freeze {
	m.head = head{Kind: KindFreeze}
	if thaw {
		m.Flags = FlagThaw
	}
	return m
}

// NewRelease sets the kind.
func NewRelease(m Release) Release { m.head = head{Kind: KindRelease}; return m }

// NewDone sets the kind.
func NewDone(m Done) Done { m.head = head{Kind: KindDone}; return m }

// NewWelcome sets the kind, that the agent takes notes, and more flags.
func NewWelcome(m Welcome, flags uint32) Welcome {
	m.head = head{KindWelcome, FlagNotes | flags}
	return m
}

// NewRefused sets the kind.
func NewRefused(m Refused) Refused { m.head = head{Kind: KindRefused}; return m }

// NewCreated sets the kind.
func NewCreated(m Created, flags uint32) Created { m.head = head{KindCreated, flags}; return m }

// NewSnapshot sets the kind.
func NewSnapshot(m Snapshot, flags uint32) Snapshot {
	m.head = head{KindSnapshot, flags}
	return m
}

// Kind returns what the message is.
func (h head) kind() Kind { return h.Kind }

// Rejoins reports whether FlagRejoin is set.
func (h head) Rejoins() bool { return h.Flags&FlagRejoin != 0 }

// Fakes reports whether FlagFake is set.
func (h head) Fakes() bool { return h.Flags&FlagFake != 0 }

// Gangs reports whether FlagGang is set.
func (h head) Gangs() bool { return h.Flags&FlagGang != 0 }

// Movable reports whether FlagMovable is set.
func (h head) Movable() bool { return h.Flags&FlagMovable != 0 }

// Keeps reports whether FlagKeep is set.
func (h head) Keeps() bool { return h.Flags&FlagKeep != 0 }

// Thaws reports whether FlagThaw is set.
func (h head) Thaws() bool { return h.Flags&FlagThaw != 0 }

// Serves reports whether FlagService is set.
func (h head) Serves() bool { return h.Flags&FlagService != 0 }

// More reports whether FlagMore is set.
func (h head) More() bool { return h.Flags&FlagMore != 0 }

func appendFixed(b []byte, m any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, m)
	if err != nil {
		panic("wire: " + err.Error()) // a message type of this file without a fixed size
	}
	return b
}

// Append implements [Message].
func (m Hello) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Signal) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Note) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Create) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Top) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Set) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Policy) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Stays) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Moved) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Freeze) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Release) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Done) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Welcome) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Refused) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Created) Append(b []byte) []byte { return appendFixed(b, m) }

// Append implements [Message].
func (m Snapshot) Append(b []byte) []byte { return appendFixed(b, m) }

// shapes lists the message types: what may be in their flags and in their reserved words, and
// whether text follows.
var shapes = map[Kind]struct {
	flags  uint32
	decode func([]byte) (Message, uint32, error)
}{
	KindHello: {FlagRejoin, decode(func(m *Hello) (uint32, bool) {
		return 0, zero(m.Reserved[:])
	})},
	KindWant:    {0, decodeSignal},
	KindDrained: {0, decodeSignal},
	KindIdle:    {0, decodeSignal},
	KindBye:     {0, decodeSignal},
	KindMeasure: {0, decodeSignal},
	KindStays:   {0, decode(func(m *Stays) (uint32, bool) { return 0, m.Pad == 0 })},
	KindMoved:   {0, decode(func(*Moved) (uint32, bool) { return 0, true })},
	KindFreeze: {FlagThaw, decode(func(m *Freeze) (uint32, bool) {
		return m.TextLen, zero(m.Reserved[:])
	})},
	KindRelease: {0, decode(func(m *Release) (uint32, bool) {
		return m.TextLen, zero(m.Reserved[:])
	})},
	KindCreate: {FlagRejoin | FlagFake | FlagGang | FlagMovable | FlagKeep,
		decode(func(m *Create) (uint32, bool) { return m.TextLen, true })},
	KindTop:  {0, decode(func(m *Top) (uint32, bool) { return 0, zero(m.Reserved[:]) })},
	KindNote: {0, decode(func(*Note) (uint32, bool) { return 0, true })},
	KindSet:  {0, decode(func(m *Set) (uint32, bool) { return m.TextLen, zero(m.Reserved[:]) })},
	KindPolicy: {0, decode(func(m *Policy) (uint32, bool) {
		return m.TextLen, zero(m.Reserved[:])
	})},
	KindDone: {0, decode(func(m *Done) (uint32, bool) { return m.TextLen, zero(m.Reserved[:]) })},
	KindWelcome: {FlagNotes | FlagMeasures, decode(func(m *Welcome) (uint32, bool) {
		return 0, zero(m.Reserved[:])
	})},
	KindRefused: {0, decode(func(m *Refused) (uint32, bool) {
		return m.TextLen, zero(m.Reserved[:])
	})},
	KindCreated: {FlagService, decode(func(m *Created) (uint32, bool) {
		return m.TextLen, m.PipeLen <= m.TextLen
	})},
	KindSnapshot: {FlagMore, decode(func(m *Snapshot) (uint32, bool) {
		return m.TextLen, zero(m.Reserved[:])
	})},
}

var decodeSignal = decode(func(m *Signal) (uint32, bool) { return 0, zero(m.Reserved[:]) })

// decode makes a decoder of a type from the function that tells a message's length of text and
// whether its reserved words are zero.
func decode[T Message](check func(*T) (uint32, bool)) func([]byte) (Message, uint32, error) {
	return func(b []byte) (Message, uint32, error) {
		var m T
		if _, err := binary.Decode(b, binary.LittleEndian, &m); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrMessage, err)
		}
		n, ok := check(&m)
		if !ok {
			return nil, 0, fmt.Errorf("%w: reserved bytes are not zero", ErrMessage)
		}
		return m, n, nil
	}
}

func zero(words []uint32) bool {
	for _, w := range words {
		if w != 0 {
			return false
		}
	}
	return true
}

// Decode reads one packet: a message, which is a Hello, Signal, Note, Create, Top, Set, Policy,
// Stays, Moved, Freeze, Release, Welcome, Refused, Created, Snapshot or Done, and the text that
// follows it. It refuses, with [ErrMessage], any packet that Append and the text would not have
// made. The text is a part of the packet.
func Decode(packet []byte) (Message, []byte, error) {
	if len(packet) < MessageSize || len(packet) > MaxPacket {
		return nil, nil, fmt.Errorf("%w: packet of %d bytes, want %d to %d", ErrMessage,
			len(packet), MessageSize, MaxPacket)
	}
	kind := Kind(binary.LittleEndian.Uint32(packet))
	s, ok := shapes[kind]
	if !ok {
		return nil, nil, fmt.Errorf("%w: unknown kind %d", ErrMessage, kind)
	}
	if flags := binary.LittleEndian.Uint32(packet[4:]); flags&^s.flags != 0 {
		return nil, nil, fmt.Errorf("%w: kind %d with unknown flags %#x", ErrMessage, kind, flags)
	}
	m, n, err := s.decode(packet[:MessageSize])
	if err != nil {
		return nil, nil, fmt.Errorf("kind %d: %w", kind, err)
	}
	if text := packet[MessageSize:]; uint64(n) != uint64(len(text)) {
		return nil, nil, fmt.Errorf("%w: kind %d says %d bytes of text, %d follow", ErrMessage,
			kind, n, len(text))
	}
	return m, packet[MessageSize:], nil
}

// KindOf returns what a decoded message is.
func KindOf(m Message) Kind {
	if k, ok := m.(interface{ kind() Kind }); ok {
		return k.kind()
	}
	return 0
}

// TrimName cuts a name to what a page can hold, at the end of a character.
func TrimName(name string) string {
	if len(name) <= NameSize {
		return name
	}
	b := []byte(name)[:NameSize]
	return string(bytes.ToValidUTF8(b, nil))
}
