package terminal

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"steward/internal/catalog"
	"steward/internal/fault"
)

// question returns the question about the offer, on one line.
func (m *liveScreen) question() string {
	o := m.pend.offer
	about := o.subject()
	what, ask := describe(about), ""
	switch {
	case o.stage == offered && about[0].Changed:
		ask = what + " has changed since you approved it. Look at the changes?"
	case o.stage == offered:
		ask = what + " waits for your approval. Look at it?"
	case len(about) > 1:
		ask = fmt.Sprintf("Allow these %d as they are?", len(about))
	default:
		ask = fmt.Sprintf("Allow %s as it is%s?", Visible(about[0].Path), extent(about[0].shown))
	}
	return "? " + ask + " y/n"
}

// extent returns the number of tools and warnings that were shown.
func extent(i catalog.Inspection) string {
	tools, warnings := counted(len(i.Tools), "tool"), counted(len(i.Warnings), "warning")
	switch {
	case len(i.Tools) > 0 && len(i.Warnings) > 0:
		return " (" + tools + ", " + warnings + ")"
	case len(i.Tools) > 0:
		return " (" + tools + ")"
	case len(i.Warnings) > 0:
		return " (" + warnings + ")"
	}
	return ""
}

// describe returns what a group is, and how many others are below it.
func describe(about []candidate) string {
	kind := "an agent"
	switch first := about[0]; {
	case strings.HasPrefix(first.Path, "mcp:"):
		kind = "an MCP server"
	case strings.HasPrefix(first.Path, "grpc:"):
		kind = "a gRPC endpoint"
	case first.Kind == catalog.KindSource:
		kind = "a source of tools"
	}
	if n := len(about) - 1; n > 0 {
		kind += fmt.Sprintf(" with %d below it", n)
	}
	return fmt.Sprintf("%s (%s)", Visible(about[0].Path), kind)
}

// asks returns the lines above the input: the question, or what is in progress.
func (m *liveScreen) asks() []string {
	o := m.pend.offer
	switch {
	case m.asking():
		line := m.question()
		if m.pend.key != "" {
			line += " " + m.pend.key
		}
		return append([]string{""}, strings.Split(m.turn.warn.Render(m.turn.paint.wrap(line)), "\n")...)
	case !m.pend.working():
		return nil
	case o.stage == looking:
		return []string{m.turn.dim.Render(cut(m.spinner()+" looking at "+Visible(o.name())+": starting what it needs", m.width-1))}
	}
	return []string{m.turn.dim.Render(cut(m.spinner()+" sending your answer", m.width-1))}
}

// answersLine explains the keys.
func (m *liveScreen) answersLine() string {
	o := m.pend.offer
	switch {
	case o.stage == offered:
		line := "y look · n not now · d deny"
		if n := len(m.pend.open()); n > 1 {
			line += fmt.Sprintf(" · 1 of %d", n)
		}
		return line
	case len(o.subject()) > 1:
		return "y allow · n not now · o one by one · d deny · details are above"
	}
	return "y allow · n not now · d deny · details are above"
}

// showInspected prints what an offer is about, before the person is asked to allow it.
func (m *liveScreen) showInspected(o *offer) {
	o.stage = allowing
	for _, err := range o.errs {
		m.pend.told = m.pend.told || fault.HasCode(err, "admin_only")
		m.fail(err)
	}
	for _, t := range o.candidates {
		m.turn.print(kindShown, strings.TrimSuffix(inspected(m.turn.style, m.width, t.shown, false), "\n"))
	}
	o.candidates = slices.DeleteFunc(o.candidates, func(t candidate) bool {
		if t.Status == catalog.Invalid {
			m.printNote(Visible(t.Path) + " cannot be approved until that is fixed")
		}
		return t.Status == catalog.Invalid
	})
	switch {
	case len(o.candidates) == 0:
		m.pend.offer = nil
	case len(o.candidates) > 1:
		m.turn.print(kindShown, m.summary(o.candidates))
	}
}

// summary lists what was shown, if there is one question about all of it.
func (m *liveScreen) summary(things []candidate) string {
	wide := 0
	for _, t := range things {
		wide = max(wide, len(Visible(t.Path)))
	}
	lines := []string{m.turn.strong.Render("To be allowed:")}
	for _, t := range things {
		tools := "no tools"
		if n := len(t.shown.Tools); n > 0 {
			tools = counted(n, "tool") + ": " + strings.Join(t.shown.Tools, ", ")
		}
		line, note := fmt.Sprintf("  %-*s  %s", wide, Visible(t.Path), Visible(flat(tools))), ""
		if n := len(t.shown.Warnings); n > 0 {
			note = "  ! " + counted(n, "warning")
		}
		lines = append(lines, cut(line, m.width-1-len(note))+m.turn.warn.Render(note))
	}
	return strings.Join(lines, "\n")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printDecisions prints the result of a decision.
func (m *liveScreen) printDecisions(done []catalog.Listing) {
	first := done[0]
	name := Visible(first.Path)
	if first.Status == catalog.Denied {
		m.turn.print(kindNote, m.turn.bad.Render("✗")+" "+m.turn.paint.wrap(name+" is denied; you will be asked again when it changes"))
		return
	}
	text := name + " is allowed"
	switch n := len(done) - 1; {
	case n > 0:
		text += fmt.Sprintf(", with the %d below it", n)
	case !first.Usable:
		text += "; it can be used once its parents are allowed too"
	}
	m.turn.print(kindNote, m.turn.good.Render("✓")+" "+m.turn.paint.wrap(text))
}

// printWaiting prints what waits, for a person who may not decide.
func (m *liveScreen) printWaiting(list [][]candidate) {
	for _, g := range list {
		m.pend.mark(g)
		m.printNote(describe(g) + " waits for approval on the machine that Steward runs on: steward agents approve " + Visible(g[0].Path))
	}
}

// approve asks about a named agent or source, or again about everything that waits.
func (m *liveScreen) approve(name string) tea.Cmd {
	p := &m.pend
	switch {
	case p.offer != nil && p.offer.stage == deciding:
		m.printNote("one moment: your last answer is still being sent")
	case name == "":
		return m.withAgents(m.approveWaiting)
	default:
		return m.withAgents(func(all []catalog.Listing) tea.Cmd { return m.approveNamed(name, all) })
	}
	return nil
}

// approveWaiting asks again about everything that waits.
func (m *liveScreen) approveWaiting(all []catalog.Listing) tea.Cmd {
	p := &m.pend
	p.waiting = catalog.Waiting(all) // news of the last decisions may still be on their way
	if len(p.waiting) == 0 {
		return m.noteCmd("nothing waits for an approval")
	}
	p.asked, p.offer, p.told = nil, nil, false
	return nil
}

// approveNamed inspects the named agent or source, and what waits below it.
func (m *liveScreen) approveNamed(name string, all []catalog.Listing) tea.Cmd {
	i := slices.IndexFunc(all, func(l catalog.Listing) bool { return l.Path == name })
	if i < 0 {
		var names []string
		for _, l := range all {
			names = append(names, l.Path)
		}
		m.printUnknown("agent or source ", name, "; /agents lists them", "/approve ", names)
		return nil
	}
	var things []candidate
	l := all[i]
	allowed := l.Status == catalog.Approved && !l.NeedsDecision()
	if !allowed {
		things = append(things, candidate{Listing: l})
	}
	for _, w := range catalog.Waiting(all) {
		if strings.HasPrefix(w.Path, name+"/") {
			things = append(things, candidate{Listing: w})
		}
	}
	if len(things) == 0 {
		return m.noteCmd(Visible(name) + " is already allowed: " + StatusWords(l))
	}
	m.pend.offer = &offer{candidates: things, named: true}
	return m.inspect(m.pend.offer)
}
