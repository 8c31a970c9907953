package pagetest

import (
	"fmt"
	"testing"

	"github.com/weirgpu/weir"
)

// TestUndoOthers: an undo takes back what one has changed oneself, and nothing that somebody else
// has since; and who changes a part of a share sends that part.
func TestUndoOthers(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	const name = "digits-00"
	third := shareOf(s, name)
	third.Compute = 1.0 / 3 // which the form cannot say
	if _, err := s.SetShare(name, third); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "the page", rows+" === 1")
	do := func(what string) {
		t.Helper()
		b.do(t, `document.querySelector("#notes").replaceChildren();
			document.querySelector("#alerts").replaceChildren()`)
		b.do(t, what)
		b.until(t, "the message", `document.querySelector("#notes button")`)
	}
	undo := func() {
		t.Helper()
		b.do(t, `document.querySelector("#notes button").click()`)
	}
	set := func(selector, value, event string) string {
		return fmt.Sprintf(`{ const e = document.querySelector(%q); e.value = %q;
			e.dispatchEvent(new Event(%q, { bubbles: true })) }`, selector, value, event)
	}
	do(set(".policy select", "priority", "change"))
	if err := s.SetPolicy("fifo"); err != nil {
		t.Fatal(err)
	}
	undo()
	b.until(t, "the refusal", `document.querySelector("#alerts").textContent.includes("changed since")`)
	if p := s.Status().Policy; p != "fifo" {
		t.Errorf("the undo made the policy %s", p)
	}
	// who was on a message that is closed is on the page
	b.do(t, `const e = document.querySelector("#alerts button"); e.focus(); e.click()`)
	b.until(t, "the focus", `document.activeElement.id === "main"`)

	b.do(t, `location.hash = "#/models/`+name+`"`)
	b.until(t, "the share", `document.querySelector("[name=compute]")?.value === "33.33"`)
	other := func(f func(*weir.Share)) {
		t.Helper()
		to := shareOf(s, name)
		f(&to)
		if _, err := s.SetShare(name, to); err != nil {
			t.Fatal(err)
		}
	}
	// another's change of what the form does not send stays
	b.do(t, set("[name=class]", "latency", "input"))
	other(func(to *weir.Share) { to.Limit = 0.9 })
	b.until(t, "the other's limit", `document.querySelector("[name=limit]").value === "90"`)
	other(func(to *weir.Share) { to.Limit = 0.8 })
	do(`document.querySelector(".share").requestSubmit()`)
	if got := shareOf(s, name); got.Class != weir.Latency || got.Limit != 0.8 ||
		got.Compute != 1.0/3 {
		t.Errorf("after a change of the class alone: %+v", got)
	}
	// and of what the undo does not send
	other(func(to *weir.Share) { to.Limit, to.Memory = 0.7, to.Memory*2 })
	memory := shareOf(s, name).Memory
	undo()
	b.until(t, "the undoing", `document.querySelector("#notes").textContent.includes("Undone")`)
	if got := shareOf(s, name); got.Class != weir.Standard || got.Limit != 0.7 ||
		got.Memory != memory || got.Compute != 1.0/3 {
		t.Errorf("after the undo: %+v", got)
	}
	// and of the same since
	b.until(t, "the class", `document.querySelector("[name=class]").value === "standard"`)
	do(set("[name=class]", "latency", "input") +
		`; document.querySelector(".share").requestSubmit()`)
	other(func(to *weir.Share) { to.Class = weir.Opportunistic })
	undo()
	b.until(t, "the refusal", `document.querySelector("#alerts").textContent.includes("changed since")`)
	if got := shareOf(s, name); got.Class != weir.Opportunistic {
		t.Errorf("the undo made the class %v", got.Class)
	}
}

// TestFocusStays: the focus stays where it is as rows come, go and change places.
func TestFocusStays(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "the page", rows+" === 1")
	b.do(t, `import("/assets/dom.js").then(({ arrange, el }) => {
		const list = el("ul"), all = [..."abcd"].map(c => el("li", {}, el("button", {}, c))), [a, b, c, d] = all;
		document.querySelector("main").append(list);
		arrange(list, all);
		c.firstChild.focus();
		let moved = 0;
		c.firstChild.addEventListener("blur", () => moved++);
		const is = order => {
			arrange(list, order);
			if (document.activeElement !== c.firstChild) throw new Error("the focus is lost");
			if ([...list.children].some((e, i) => e !== order[i]) || list.children.length !== order.length)
				throw new Error("the rows are " + list.textContent);
		};
		is([b, c, d]); is([b, c]); is([a, c, d]); is([c]); is([a, b, c, d]);
		if (moved) throw new Error("the row was moved for others");
		is([d, c, b, a]); is([c, a]); is([a, c]);
		window.done = "kept";
	}).catch(e => { window.done = e.message; })`)
	b.until(t, "all orders", `window.done`)
	b.until(t, "the focus", `window.done === "kept"`)
}
