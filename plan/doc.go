// Package plan compiles a graph for one device: which kernel computes each node, in which order,
// and where in memory every value lies.
//
// Meet first: [Compile] makes a [Plan] from a graph and concrete input shapes; a Plan is a list of
// [Step]s and a list of [Slot]s; [Plan.Bind] ties a plan to one arena and gives a [Program] that
// runs.
//
// Memory is known before it is used: Plan.ArenaBytes (all intermediate values, inputs, outputs and
// scratch of one session) and Plan.PackedBytes (weights repacked for the kernels, shared by all
// sessions) are exact before anything is allocated. Constants that no kernel repacks stay where the
// model file maps them.
//
// A value that dies in the step that reads it gives its place to the step's result where the kernel
// allows it (compute.InPlace), so inputs are filled anew before each run.
//
// Under a bound (Options.MostArena) a plan takes less memory and more time: its steps come in
// another order, and values are computed again instead of kept until a late reader needs them.
// [Trades] says what that costs. No bit of a result changes.
//
// What one iteration leaves for the next, such as weights that are trained, lies in a [State]
// beside the arena, which several plans may be bound to. An output that replaces a variable is
// computed where the variable lies, if that dies in the step; else it is copied there after the
// last step.
//
// Split along the outermost axis longer than one makes views of the whole, and what Concat joins
// along that axis is computed where it will lie in the result. Neither is then a step. This is done
// as far as it takes no more memory than copying.
//
// The bodies of If, Loop and Scan are plans of their own: their arenas lie in the scratch of the
// step, captured values are read where the enclosing plan has them, and the gate is passed between
// their steps, too. A Loop whose carried values change shape runs by the reference evaluation.
//
// Values whose shape depends on data (NonZero, the slices of a Loop whose length is not known), and
// sequences, optionals and maps, cannot be planned. They live on the Go heap while one iteration
// runs, and their bytes are asked of the job's memory as they appear (compute.Exec). So do tensors
// of strings: their headers are asked for with the tensor, and the letters of new strings before an
// operator makes them. Not counted are the letters of strings that the caller gave as input, and
// the rest of a string of which a part is still in use.
//
// On a device whose memory the host cannot address (compute.Features Remote), the constants that
// the device's kernels read are packed with the weights. Nodes for which the device has no kernel,
// among them all nodes on the values above and all bodies, are evaluated on the host between copies
// ([Plan.BindRemote]).
//
// Concurrency: a Plan is immutable and shared. A Program belongs to one goroutine at a time.
//
// What it refuses: graphs whose inputs have no concrete shape ([ErrShape]), and bodies that do not
// fit their node for any shapes.
package plan
