package browser

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/tool"
)

// click is browser.click.
func (b *chromium) click(ctx context.Context, a clickArgs) (none tool.Result, err error) {
	p, err := b.at(ctx, a.Site)
	if err != nil {
		return none, tool.NotDone(err)
	}
	id, err := b.element(ctx, p, a.Element, a.Name)
	if err != nil {
		return none, tool.NotDone(err)
	}
	x, y, err := b.middle(ctx, p, id)
	if err != nil {
		return none, tool.NotDone(b.endCause(err))
	}
	mouse := m{"type": "mouseMoved", "x": x, "y": y}
	if err := b.call(ctx, p.session, "Input.dispatchMouseEvent", mouse, nil); err != nil {
		return none, tool.NotDone(b.endCause(err))
	}
	mouse = m{"type": "mousePressed", "x": x, "y": y, "button": "left", "clickCount": 1}
	if err := b.call(ctx, p.session, "Input.dispatchMouseEvent", mouse, nil); err != nil {
		return none, b.endCause(err)
	}
	// A page that opens another one before it has seen the end of the click never replies to it.
	b.post(p.session, "Input.dispatchMouseEvent", m{"type": "mouseReleased", "x": x, "y": y, "button": "left", "clickCount": 1})
	b.waitLoaded(ctx, p)
	return b.outlineAfter(ctx, "It was clicked.")
}

// outlineAfter returns the outline of the page after an action. A page that cannot be read does not make
// the action fail.
func (b *chromium) outlineAfter(ctx context.Context, done string) (tool.Result, error) {
	res, err := b.outlineFrom(ctx, 0)
	if err != nil {
		res = tool.Text(done + " The page cannot be read: " + fault.Of(err).Message)
		res.Labels = b.labels()
	}
	return res, nil
}

// at returns the page that is shown if it is of the site that the person was shown.
func (b *chromium) at(ctx context.Context, site string) (page, error) {
	p, err := b.shown()
	if err != nil {
		return p, err
	}
	at, err := b.address(ctx, p)
	if err != nil {
		return p, err
	}
	u, err := url.Parse(at.URL)
	if err != nil || !strings.EqualFold(u.Host, site) {
		return p, fault.New(fault.Conflict, "page_changed", "the open page is %.300s, not one of %s", at.URL, site).WithHint("read the page, and name its host")
	}
	return p, nil
}

// element returns the number of an element, if it still has its name.
func (b *chromium) element(ctx context.Context, p page, element, name string) (int, error) {
	id, err := strconv.Atoi(strings.TrimPrefix(element, "e"))
	if err != nil {
		return 0, fault.New(fault.Invalid, "element_invalid", "%.40q is not an element id", element)
	}
	var tree struct{ Nodes []node }
	err = b.call(ctx, p.session, "Accessibility.getPartialAXTree", m{"backendNodeId": id, "fetchRelatives": false}, &tree)
	switch {
	case fault.HasCode(err, "browser_refused") || err == nil && len(tree.Nodes) == 0:
		return 0, staleElement(id)
	case err != nil:
		return 0, b.endCause(err)
	}
	if now := tree.Nodes[0].Name.text(); now != oneLine(name) {
		return 0, fault.New(fault.Conflict, "element_changed", "the element %s is called %q, not %q", element, now, name).WithHint("read the page again, and use the name that it shows")
	}
	return id, nil
}

// staleElement returns the error for an element of an earlier page.
func staleElement(id int) error {
	return fault.New(fault.Conflict, "element_gone", "there is no element e%d on the page", id).WithHint("read the page again: its ids have changed")
}

// js calls a function on an element.
func (b *chromium) js(ctx context.Context, p page, id int, function string, args []m, into any) error {
	var found struct{ Object struct{ ObjectID string } }
	if err := b.call(ctx, p.session, "DOM.resolveNode", m{"backendNodeId": id}, &found); fault.HasCode(err, "browser_refused") {
		return staleElement(id)
	} else if err != nil {
		return err
	}
	var res struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	res.Result.Value = into
	err := b.call(ctx, p.session, "Runtime.callFunctionOn", m{"objectId": found.Object.ObjectID, "functionDeclaration": function,
		"arguments": args, "returnByValue": true, "userGesture": true}, &res)
	if err == nil && res.ExceptionDetails != nil {
		err = fault.New(fault.Unavailable, "element_unusable", "the element cannot be used: %.200s", res.ExceptionDetails.Text)
	}
	return err
}

// onTop says whether a click at a point reaches an element.
const onTop = `function(x, y) {
	let e = document.elementFromPoint(x, y);
	while (e && e.shadowRoot && e !== this) { const inner = e.shadowRoot.elementFromPoint(x, y); if (!inner || inner === e) break; e = inner; }
	return !!e && (e === this || this.contains(e) || e.contains(this) || (this.labels && [...this.labels].some(l => l.contains(e))) || false);
}`

// middle returns the middle of an element, which it brings into view.
func (b *chromium) middle(ctx context.Context, p page, id int) (x, y float64, err error) {
	hidden := fault.New(fault.Conflict, "element_hidden", "the element cannot be seen").WithHint("something may have to be opened first")
	if err := b.call(ctx, p.session, "DOM.scrollIntoViewIfNeeded", m{"backendNodeId": id}, nil); err != nil {
		if fault.HasCode(err, "browser_refused") {
			return 0, 0, hidden
		}
		return 0, 0, err
	}
	var box struct{ Quads [][]float64 } // four corners each: x1, y1, …
	if err := b.call(ctx, p.session, "DOM.getContentQuads", m{"backendNodeId": id}, &box); err != nil {
		return 0, 0, err
	}
	if len(box.Quads) == 0 || len(box.Quads[0]) != 8 {
		return 0, 0, hidden
	}
	for i := 0; i < 8; i += 2 {
		x, y = x+box.Quads[0][i]/4, y+box.Quads[0][i+1]/4
	}
	var top bool
	if err := b.js(ctx, p, id, onTop, []m{{"value": x}, {"value": y}}, &top); err != nil {
		return 0, 0, err
	}
	if !top {
		return 0, 0, fault.New(fault.Conflict, "element_covered", "something lies over the element").WithHint("read the page, and close the part that covers it")
	}
	return x, y, nil
}

// prepare fills in a list or a box, and answers "". It prepares a field of text to be typed into,
// and answers "type". Otherwise it answers what is wrong.
const prepare = `function(text) {
	if (this.disabled || this.readOnly) return "it cannot be changed";
	if (this.tagName === "SELECT") {
		for (const o of this.options) if (o.text.trim() === text.trim()) {
			this.value = o.value;
			for (const e of ["input", "change"]) this.dispatchEvent(new Event(e, {bubbles: true}));
			return "";
		}
		return "its options are: " + [...this.options].slice(0, 50).map(o => o.text.trim()).join(", ");
	}
	if (this.type === "checkbox" || this.type === "radio") {
		if (text !== "yes" && text !== "no") return "write yes or no";
		if (this.checked !== (text === "yes")) this.click();
		return "";
	}
	if (["date", "time", "month", "week", "datetime-local", "color", "range"].includes(this.type)) {
		this.value = text;
		for (const e of ["input", "change"]) this.dispatchEvent(new Event(e, {bubbles: true}));
		return this.value === text ? "" : "it does not take this value";
	}
	if (this.type === "file") return "files are not given to pages";
	if (this.tagName !== "INPUT" && this.tagName !== "TEXTAREA" && !this.isContentEditable) return "it is not a field";
	this.focus();
	if (this.select) this.select(); else document.getSelection().selectAllChildren(this);
	document.execCommand("delete");
	return "type";
}`

// fill is browser.fill. All fields are checked before the first one is changed.
func (b *chromium) fill(ctx context.Context, a fillArgs) (none tool.Result, err error) {
	p, err := b.at(ctx, a.Site)
	if err != nil {
		return none, tool.NotDone(err)
	}
	ids := make([]int, len(a.Fields))
	for i, f := range a.Fields {
		if ids[i], err = b.element(ctx, p, f.Element, f.Name); err != nil {
			return none, tool.NotDone(err)
		}
	}
	b.filled = true
	for i, f := range a.Fields {
		var say string
		err := b.js(ctx, p, ids[i], prepare, []m{{"value": f.Text}}, &say)
		if err == nil && say == "type" && f.Text != "" {
			err = b.call(ctx, p.session, "Input.insertText", m{"text": f.Text}, nil)
		}
		if err != nil {
			return none, b.endCause(err)
		}
		if say != "" && say != "type" {
			res := tool.Text("The field " + f.Element + " was not filled in: " + oneLine(say) + ". Those before it were.")
			res.Failed, res.Labels = i == 0, b.labels()
			return res, nil
		}
	}
	return b.outlineAfter(ctx, "It is filled in.")
}
