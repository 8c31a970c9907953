package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"sync/atomic"
)

// constants lists what the C header defines besides the structures.
var constants = []struct {
	name  string
	value uint64
	doc   string
}{
	{"MAGIC", Magic, "'WEIR'"},
	{"VERSION", Version, ""},
	{"PAGE_SIZE", PageSize, ""},
	{"SLOT_COUNT", SlotCount, ""},
	{"SLOT_SIZE", SlotSize, ""},
	{"SLOTS_OFFSET", SlotsOffset, ""},
	{"NAME_SIZE", NameSize, ""},
	{"NOTE_SIZE", NoteSize, ""},
	{"NO_SLOT", NoSlot, ""},
	{"FOREIGN_PID", ForeignPID, ""},
	{"PPM", PPM, ""},
	{"MSG_SIZE", MessageSize, ""},
	{"MAX_TEXT", MaxText, ""},
	{"BEAT_NS", uint64(Beat), "how often the agent writes agent_beat_ns"},
	{"DEAD_NS", uint64(Dead), "an agent whose socket is closed and whose beat is older is dead"},
	{"HUNG_NS", uint64(Hung),
		"an agent whose socket is open and whose beat is older is taken for dead"},
	{"IDLE_NS", uint64(Idle), "how long nothing is in flight before IDLE is sent"},
	{"RECONNECT_NS", uint64(Reconnect), "how often a process tries to rejoin"},

	{"CLASS_STANDARD", ClassStandard, ""},
	{"CLASS_LATENCY", ClassLatency, ""},
	{"CLASS_OPPORTUNISTIC", ClassOpportunistic, ""},

	{"STATE_FREE", StateFree, ""},
	{"STATE_ATTACHED", StateAttached, ""},
	{"STATE_LEAVING", StateLeaving, ""},

	{"ERROR_DRIVER_MISSING", ErrorDriverMissing, "the driver's library could not be opened"},
	{"ERROR_SYMBOL_MISSING", ErrorSymbolMissing, "the driver lacks a call that must be metered"},
	{"ERROR_OVERDRAFT", ErrorOverdraft, "memory was found to be over the cap"},
	{"ERROR_INTERNAL", ErrorInternal, "a state that was not expected"},
	{"CONTEXT_UNMEASURED", ContextUnmeasured,
		"context_bytes: what contexts take could not be found"},

	{"NOT_MEASURED", NotMeasured, "measured_bytes: not known"},

	{"MSG_HELLO", uint64(KindHello), "client: asks for a slot"},
	{"MSG_WANT", uint64(KindWant), "client: waits at the gate"},
	{"MSG_DRAINED", uint64(KindDrained), "client: nothing in flight after a close"},
	{"MSG_IDLE", uint64(KindIdle), "client: no work for a while with the gate open"},
	{"MSG_BYE", uint64(KindBye), "client: gives its slot back"},
	{"MSG_CREATE", uint64(KindCreate), "controller: asks for a job"},
	{"MSG_TOP", uint64(KindTop), "viewer: asks for snapshots"},
	{"MSG_NOTE", uint64(KindNote), "client: a driver call that it does not know"},
	{"MSG_SET", uint64(KindSet), "asks for another share of a job"},
	{"MSG_POLICY", uint64(KindPolicy), "asks for another policy"},
	{"MSG_MEASURE", uint64(KindMeasure), "client: asks for measured_bytes"},
	{"MSG_STAYS", uint64(KindStays), "client: what of its memory cannot be moved"},
	{"MSG_MOVED", uint64(KindMoved), "client: has done what the page's move orders, or not"},
	{"MSG_FREEZE", uint64(KindFreeze), "asks for a job's memory to be moved, or back"},
	{"MSG_RELEASE", uint64(KindRelease), "a claim is not kept any more"},
	{"MSG_WELCOME", uint64(KindWelcome), "agent: slot and page (SCM_RIGHTS)"},
	{"MSG_REFUSED", uint64(KindRefused), "agent: code, text follows"},
	{"MSG_CREATED", uint64(KindCreated), "agent: token and page (SCM_RIGHTS)"},
	{"MSG_SNAPSHOT", uint64(KindSnapshot), "agent: JSON follows"},
	{"MSG_DONE", uint64(KindDone), "agent: answers SET, POLICY, FREEZE and RELEASE, text follows"},

	{"FIELD_MEMORY", FieldMemory, "SET: the cap changes"},
	{"FIELD_COMPUTE", FieldCompute, "SET: the guarantee changes"},
	{"FIELD_LIMIT", FieldLimit, "SET: the limit changes"},
	{"FIELD_CLASS", FieldClass, "SET: the class changes"},
	{"MOVED_ALL", MovedAll, "done"},
	{"MOVED_BUSY", MovedBusy, "the device was not done with the memory"},
	{"MOVED_HOST", MovedHost, "the host has not so much memory for it"},
	{"MOVED_DEVICE", MovedDevice, "the device has not so much memory free"},
	{"MOVED_FAILED", MovedFailed, "the driver refused"},
	{"MOVED_SPILL", MovedSpill, "the folder for spilling failed it"},
	{"MOVED_DAMAGED", MovedDamaged, "what the folder gives back is not what was written"},
	{"NO_DEVICE", NoDevice, "SET, FREEZE: whichever has the job"},

	{"FLAG_REJOIN", FlagRejoin,
		"HELLO: had a slot from an agent that is gone; page sent along if at hand"},
	{"FLAG_FAKE", FlagFake, "CREATE: a device of the fake driver is wanted"},
	{"FLAG_GANG", FlagGang, "CREATE: of a gang, which follows the name after a NUL"},
	{"FLAG_MOVABLE", FlagMovable, "CREATE: memory is to be such as can be moved"},
	{"FLAG_THAW", FlagThaw, "FREEZE: the memory is to come back"},
	{"FLAG_KEEP", FlagKeep, "CREATE: the job lives until its claim is released"},
	{"FLAG_SERVICE", FlagService, "CREATED: the agent is kept running by somebody else"},
	{"FLAG_NOTES", FlagNotes, "WELCOME: the agent takes NOTE"},
	{"FLAG_MEASURES", FlagMeasures, "WELCOME: the agent answers MEASURE"},
	{"FLAG_MORE", FlagMore, "SNAPSHOT: goes on in the next"},

	{"REFUSED_PROTOCOL", uint64(RefusedProtocol), "malformed or out of place"},
	{"REFUSED_VERSION", uint64(RefusedVersion), "the sides are of different versions"},
	{"REFUSED_UNKNOWN_JOB", uint64(RefusedUnknownJob), "no such token; when rejoining, try again"},
	{"REFUSED_CREDENTIALS", uint64(RefusedCredentials), "not the user whose job it is"},
	{"REFUSED_FULL", uint64(RefusedFull), "no free slot"},
	{"REFUSED_ADMISSION", uint64(RefusedAdmission), "the share cannot be given"},
	{"REFUSED_DEVICE", uint64(RefusedDevice), "no such device"},
	{"REFUSED_PAGE", uint64(RefusedPage), "the page sent along is not this job's"},
	{"REFUSED_BUSY", uint64(RefusedBusy), "closing down; try again"},
}

// structures lists what is laid out alike on both sides.
var structures = []struct {
	name, doc string
	of        reflect.Type
}{
	{"weir_header", "First part of the page", reflect.TypeFor[Header]()},
	{"weir_slot", "What one process writes; a page has WEIR_SLOT_COUNT at WEIR_SLOTS_OFFSET",
		reflect.TypeFor[Slot]()},
	{"weir_hello", "WEIR_MSG_HELLO", reflect.TypeFor[Hello]()},
	{"weir_signal", "WEIR_MSG_WANT, _DRAINED, _IDLE, _BYE, _MEASURE", reflect.TypeFor[Signal]()},
	{"weir_note", "WEIR_MSG_NOTE", reflect.TypeFor[Note]()},
	{"weir_create", "WEIR_MSG_CREATE", reflect.TypeFor[Create]()},
	{"weir_top", "WEIR_MSG_TOP", reflect.TypeFor[Top]()},
	{"weir_set", "WEIR_MSG_SET", reflect.TypeFor[Set]()},
	{"weir_policy", "WEIR_MSG_POLICY", reflect.TypeFor[Policy]()},
	{"weir_stays", "WEIR_MSG_STAYS", reflect.TypeFor[Stays]()},
	{"weir_moved", "WEIR_MSG_MOVED", reflect.TypeFor[Moved]()},
	{"weir_freeze", "WEIR_MSG_FREEZE", reflect.TypeFor[Freeze]()},
	{"weir_release", "WEIR_MSG_RELEASE", reflect.TypeFor[Release]()},
	{"weir_welcome", "WEIR_MSG_WELCOME", reflect.TypeFor[Welcome]()},
	{"weir_refused", "WEIR_MSG_REFUSED", reflect.TypeFor[Refused]()},
	{"weir_created", "WEIR_MSG_CREATED", reflect.TypeFor[Created]()},
	{"weir_snapshot", "WEIR_MSG_SNAPSHOT", reflect.TypeFor[Snapshot]()},
	{"weir_done", "WEIR_MSG_DONE", reflect.TypeFor[Done]()},
}

// CHeader returns the C header, internal/shim/wire.h, with an assertion for the place of every
// field.
func CHeader() []byte {
	var b bytes.Buffer
	b.WriteString("/* Code generated by internal/wire/gen from package internal/wire. DO NOT " +
		"EDIT. */\n#ifndef WEIR_WIRE_H\n#define WEIR_WIRE_H\n\n#include <stddef.h>\n#include " +
		"<stdint.h>\n\n")
	for _, c := range constants {
		suffix := "u"
		if c.value > 1<<32-1 {
			suffix = "ull"
		}
		fmt.Fprintf(&b, "#define WEIR_%s %d%s", c.name, c.value, suffix)
		if c.doc != "" {
			fmt.Fprintf(&b, " /* %s */", c.doc)
		}
		b.WriteByte('\n')
	}
	for _, s := range structures {
		fmt.Fprintf(&b, "\n/* %s. %d bytes. */\nstruct %s {\n", s.doc, s.of.Size(), s.name)
		fields := reflect.VisibleFields(s.of)
		for _, f := range fields {
			if !f.Anonymous {
				writeField(&b, f)
			}
		}
		b.WriteString("};\n")
		fmt.Fprintf(&b, "_Static_assert(sizeof(struct %s) == %d, \"size of %s\");\n", s.name,
			s.of.Size(), s.name)
		for _, f := range fields {
			if !f.Anonymous {
				fmt.Fprintf(&b, "_Static_assert(offsetof(struct %s, %s) == %d, \"%s.%s\");\n",
					s.name, f.Tag.Get("c"), offset(s.of, f), s.name, f.Tag.Get("c"))
			}
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// offset is that of a field that may lie in an embedded structure.
func offset(t reflect.Type, f reflect.StructField) uintptr {
	var at uintptr
	for _, i := range f.Index {
		g := t.Field(i)
		at += g.Offset
		t = g.Type
	}
	return at
}

// cTypes are the C types of the fields' types and, tagged as bytes, of arrays.
var cTypes = map[reflect.Type]string{
	reflect.TypeFor[uint8]():         "unsigned char",
	reflect.TypeFor[uint32]():        "uint32_t",
	reflect.TypeFor[uint64]():        "uint64_t",
	reflect.TypeFor[atomic.Uint32](): "uint32_t",
	reflect.TypeFor[atomic.Uint64](): "uint64_t",
	reflect.TypeFor[Kind]():          "uint32_t",
	reflect.TypeFor[Code]():          "uint32_t",
}

func writeField(b *bytes.Buffer, f reflect.StructField) {
	t, dim := f.Type, ""
	if t.Kind() == reflect.Array {
		dim = fmt.Sprintf("[%d]", t.Len())
		t = t.Elem()
	}
	c := cTypes[t]
	if f.Tag.Get("as") == "bytes" {
		c, dim = "unsigned char", fmt.Sprintf("[%d]", f.Type.Size())
	}
	fmt.Fprintf(b, "    %s %s%s;", c, f.Tag.Get("c"), dim)
	if doc := f.Tag.Get("doc"); doc != "" {
		fmt.Fprintf(b, " /* %s */", doc)
	}
	b.WriteByte('\n')
}
