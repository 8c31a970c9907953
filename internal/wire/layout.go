package wire

import "sync/atomic"

// Dimensions of a page.
const (
	Magic       = 0x52494557 // "WEIR"
	Version     = 1
	PageSize    = 16384
	SlotCount   = 64
	SlotSize    = 192
	SlotsOffset = 512
	NameSize    = 32
	// NoSlot stands for a slot that a process does not have.
	NoSlot = 0xffffffff
	// ForeignPID stands in a slot for the number of a process that is outside the agent's pid
	// namespace and has none there. Its owner_start is its inode in pidfs, 0 if not known.
	ForeignPID = 1 << 31
	// PPM is the number that a fraction of 1 is written as.
	PPM = 1000000
)

// States of a slot, written by its process.
const (
	StateFree     = 0
	StateAttached = 1
	StateLeaving  = 2
)

// Flags in a slot's error_flags, set by its process for people to see.
const (
	ErrorDriverMissing = 1 << 0 // the driver's library could not be opened
	ErrorSymbolMissing = 1 << 1 // the driver lacks a call that must be metered
	ErrorOverdraft     = 1 << 2 // memory was found to be over the cap
	ErrorInternal      = 1 << 3 // the library met a state it did not expect
)

// ContextUnmeasured in a page's context_bytes says that contexts were made and that what they take
// could not be found, as in a container whose processes the management library numbers otherwise.
const ContextUnmeasured = 1

// NotMeasured in a slot's measured_bytes says that the agent cannot tell what the process holds.
const NotMeasured = 1<<64 - 1

// The structures below are laid over the mapped page. Every field lies at a multiple of its size,
// and every gap has a name, so that all compilers agree. The tags are the names and comments in the
// C header.

// Header is the first part of the page. Its lines are those of the cache. The agent writes it,
// except for the two counters of line 3.
type Header struct {
	// Line 0, written once by the agent.
	Magic       atomic.Uint32     `c:"magic" doc:"WEIR_MAGIC"`
	Version     atomic.Uint32     `c:"version" doc:"WEIR_VERSION"`
	PageSize    atomic.Uint32     `c:"page_size"`
	SlotCount   atomic.Uint32     `c:"slot_count"`
	SlotSize    atomic.Uint32     `c:"slot_size"`
	SlotsOffset atomic.Uint32     `c:"slots_offset"`
	Reserved0   [10]atomic.Uint32 `c:"reserved0"`

	// Line 1: the terms of the job, written by the agent only.
	TermsSeq         atomic.Uint64    `c:"terms_seq" doc:"agent: odd while terms or identity are written"`
	MemCapBytes      atomic.Uint64    `c:"mem_cap_bytes" doc:"agent: what the job's processes may hold together"`
	MemTotalReported atomic.Uint64    `c:"mem_total_reported" doc:"agent: device memory that the program is told of"`
	Class            atomic.Uint32    `c:"class" doc:"agent: WEIR_CLASS_*"`
	DeviceOrdinal    atomic.Uint32    `c:"device_ordinal" doc:"agent: the driver's number of the device"`
	InflightBoundNS  atomic.Uint64    `c:"inflight_bound_ns" doc:"agent: predicted device time that may be in flight"`
	DeviceUUID       [2]atomic.Uint64 `c:"device_uuid" doc:"agent: the 16 bytes of the UUID in memory order"`
	FreeNS           atomic.Uint64    `c:"free_ns" doc:"agent: kernels predicted to take no longer pass the closed gate; 0: none"`

	// Line 2: the gate, written by the agent only.
	Gate            atomic.Uint32    `c:"gate" doc:"agent, futex: bit 0 is 1 when open; each change adds to the bits above"`
	GatePass        atomic.Uint32    `c:"gate_pass" doc:"the closed gate's value at which one launch may pass; agent sets it, any: 0 once taken"`
	LeaseUntilNS    atomic.Uint64    `c:"lease_until_ns" doc:"agent: when the lease is expected to end; UINT64_MAX: open end; 0: none"`
	AgentBeatNS     atomic.Uint64    `c:"agent_beat_ns" doc:"agent: written every WEIR_BEAT_NS"`
	AgentPID        atomic.Uint32    `c:"agent_pid" doc:"agent: in its own pid namespace"`
	AgentGeneration atomic.Uint32    `c:"agent_generation" doc:"agent: another one after each start, never 0"`
	Reserved2       [4]atomic.Uint64 `c:"reserved2"`

	// Line 3: what all processes of the job add to or raise.
	DeniedAllocs  atomic.Uint64    `c:"denied_allocs" doc:"any: allocations refused at the cap"`
	LaunchesTotal atomic.Uint64    `c:"launches_total" doc:"any: launches of processes that have gone"`
	ContextBytes  atomic.Uint64    `c:"context_bytes" doc:"any: the most that making a context was found to take; 0: none was made"`
	GranuleBytes  atomic.Uint64    `c:"granule_bytes" doc:"any: what allocations are multiples of, as was found; 0: not looked"`
	Reserved3     [4]atomic.Uint64 `c:"reserved3"`

	// Line 4: who the job is, for an agent that finds the page after its restart. Written by the
	// agent only, under terms_seq.
	Token         [2]atomic.Uint64            `c:"token" as:"bytes" doc:"agent: WEIR_JOB as bytes"`
	CreatorUID    atomic.Uint32               `c:"creator_uid" doc:"agent"`
	ControllerPID atomic.Uint32               `c:"controller_pid" doc:"agent"`
	ComputePPM    atomic.Uint32               `c:"compute_ppm" doc:"agent: guaranteed share in millionths"`
	LimitPPM      atomic.Uint32               `c:"limit_ppm" doc:"agent: share never exceeded in millionths; 0: all"`
	Name          [NameSize / 8]atomic.Uint64 `c:"name" as:"bytes" doc:"agent: UTF-8, padded with zeros"`

	// Line 5: more terms, written by the agent only, under terms_seq.
	ThreadPercent atomic.Uint32     `c:"thread_percent" doc:"agent: that of a process that begins now, which must be a client of MPS; 0: it need be none"`
	Movable       atomic.Uint32     `c:"movable" doc:"agent: 1 if the programs' memory is to be such as can be moved to the host"`
	Move          atomic.Uint32     `c:"move" doc:"agent, futex: bit 0 is 1 when the memory is to be on the host; each order adds to the bits above"`
	Pad5          atomic.Uint32     `c:"pad5"`
	MoveHostBytes atomic.Uint64     `c:"move_host_bytes" doc:"agent: what the job's processes may take of the host's memory together for what is moved there"`
	Reserved5     [21]atomic.Uint64 `c:"reserved5"`
}

// Slot is the part of the page that one process writes, apart from its owner, which the agent
// writes.
type Slot struct {
	OwnerPID   atomic.Uint32 `c:"owner_pid" doc:"agent: 0 when the slot is free; WEIR_FOREIGN_PID: no number there"`
	State      atomic.Uint32 `c:"state" doc:"WEIR_STATE_*"`
	OwnerStart atomic.Uint64 `c:"owner_start" doc:"agent: the process's start time in clock ticks, or inode in pidfs; 0 if not known"`

	MemUsedBytes    atomic.Uint64 `c:"mem_used_bytes" doc:"allocations, counted before the real call"`
	MemPendingBytes atomic.Uint64 `c:"mem_pending_bytes" doc:"not 0 between adding to mem_used_bytes and deciding"`
	MemContextBytes atomic.Uint64 `c:"mem_context_bytes" doc:"contexts and modules"`

	Waiting atomic.Uint32 `c:"waiting" doc:"threads blocked at the gate"`
	WantSeq atomic.Uint32 `c:"want_seq" doc:"bumped when the process starts to wait"`

	InflightNS    atomic.Uint64 `c:"inflight_ns" doc:"predicted device time launched and not seen complete"`
	DeviceNSTotal atomic.Uint64 `c:"device_ns_total" doc:"measured device time"`
	Launches      atomic.Uint64 `c:"launches"`
	GraphLaunches atomic.Uint64 `c:"graph_launches"`
	CopiesBytes   atomic.Uint64 `c:"copies_bytes"`
	LastLaunchNS  atomic.Uint64 `c:"last_launch_ns" doc:"CLOCK_MONOTONIC"`
	LastIdleNS    atomic.Uint64 `c:"last_idle_ns" doc:"CLOCK_MONOTONIC"`

	DrainedSeq atomic.Uint32 `c:"drained_seq" doc:"futex: the gate's value when nothing was in flight any more after a close"`
	ErrorFlags atomic.Uint32 `c:"error_flags" doc:"WEIR_ERROR_*"`

	ThreadPercent atomic.Uint32 `c:"thread_percent" doc:"the percentage that it began with as a client of MPS; 0: it is none"`
	AskSeq        atomic.Uint32 `c:"ask_seq" doc:"bumped before each MEASURE"`
	AnswerSeq     atomic.Uint32 `c:"answer_seq" doc:"agent: the ask_seq that measured_bytes answers"`
	Stalled       atomic.Uint32 `c:"stalled" doc:"streams that take far longer than predicted while launches wait: what is on them is not bounded in time"`
	MeasuredBytes atomic.Uint64 `c:"measured_bytes" doc:"agent: what the device says that the process holds; WEIR_NOT_MEASURED"`
	FoundBytes    atomic.Uint64 `c:"found_bytes" doc:"agent: of that, what neither allocations nor contexts count"`
	Stalls        atomic.Uint32 `c:"stalls" doc:"how often a stream was found to stall"`
	Pad           atomic.Uint32 `c:"pad"`
	PassedNS      atomic.Uint64 `c:"passed_ns" doc:"predicted device time of launches that have passed the closed gate"`
	MovableBytes  atomic.Uint64 `c:"movable_bytes" doc:"of what the process has allocated, what can be moved, on the device or away"`
	AwayBytes     atomic.Uint64 `c:"away_bytes" doc:"of that, what is not on the device, and not in mem_used_bytes"`
	HostBytes     atomic.Uint64 `c:"host_bytes" doc:"memory of the host taken for it, counted before it is taken"`
	SpilledBytes  atomic.Uint64 `c:"spilled_bytes" doc:"of what is away, what is in the folder that the program was given for it"`
}

// layout is the whole page.
type layout struct {
	Header Header
	Slots  [SlotCount]Slot
	_      [PageSize - SlotsOffset - SlotCount*SlotSize]byte
}
