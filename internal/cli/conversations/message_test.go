package conversations

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

func TestSpokenTable(t *testing.T) {
	at := time.Date(2026, 11, 5, 14, 3, 22, 0, time.Local)
	text := func(s string, l message.Labels) *message.Text {
		return &message.Text{Common: message.Common{Labels: l, Origin: record.OriginUser}, Text: s}
	}
	m := func(n byte, role message.Role, blocks ...message.Block) *apiMessage {
		return &apiMessage{Message: &message.Message{ID: id.ID{6: 0x70, 8: 0x80, 15: n}, Role: role, At: at.AddDate(0, 0, int(n)/5), Blocks: blocks}, messageState: messageState{Shown: true}}
	}
	list := []*apiMessage{
		m(1, message.User, text("hello\n\x1b[2Jthere", 0), &message.Image{MIME: "image/png"}, &message.File{Name: "a.pdf"}, &message.File{}),
		m(2, message.Assistant, &message.Reasoning{Text: "hm"}, text("Let me see.", 0), &message.ToolCall{Name: "files.read", Args: []byte(`{"path":"a"}`)}),
		m(3, message.Tool, &message.ToolResult{Name: "files.read", Status: message.OK, Rest: "cld:x", Content: []message.Block{text(strings.Repeat("漢字 ", 200), 0)}}),
		m(4, message.User, text("hunter2", message.Secret)),
		m(5, message.User, &message.Text{Common: message.Common{Origin: "system"}, Text: "steered"}),
		m(6, message.System, text("be kind", 0)),
	}
	list[0].Shown = false
	list[1].State, list[1].Shown = record.Superseded, false
	list[2].State, list[2].Pinned, list[2].By, list[2].Changed, list[2].Reason = record.Invalidated, true, "files.write", at, "written"
	list[3].State = record.Superseded
	list[4].State, list[4].By = record.Archived, "local"
	got := messageTable(list, 0, at)
	for _, want := range []string{
		"Today\n14:03  00000001  you         not shown         hello [2Jthere [image] [file a.pdf] [file]\n",
		"00000002  assistant   summarised        Let me see. → files.read {\"path\":\"a\"}\n",
		"00000003  files.read  obsolete, pinned  漢字 漢字", "00000004  you         superseded        [secret]\n",
		"\n\nFriday, 6 November 2026\n14:03  00000005  steward     archived          steered\n", "00000006  system                        be kind\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	for _, width := range []int{80, 120} {
		for line := range strings.Lines(messageTable(list, width, at)) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
	}
	var all strings.Builder
	for _, m := range list {
		all.WriteString(messageText(m, id.ID{6: 0x70, 8: 0x80, 15: 9}.String()))
	}
	for _, want := range []string{"shown          no: the model is shown only later", "[image image/png]\n", "[file a.pdf]\n", "reasoning\n  hm\n", "calls files.read\n  path: a\n", "state          summarised\n",
		"state          obsolete by files.write, 2026-11-05 14:03: written\n", "[the rest is kept as cld:x]", "[secret]\n", "state          archived by you\n", "pinned         yes\n"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%s\nlacks %q", all.String(), want)
		}
	}
	if strings.Contains(got+all.String(), "hunter2") || strings.Contains(got, "\x1b") {
		t.Error("a secret or a control character is shown")
	}
	if got := blockText(nilBlock{&message.Text{}}); got != "" {
		t.Error(got)
	}
}

// nilBlock is a block of an unknown kind.
type nilBlock struct{ message.Block }

func TestChangesTable(t *testing.T) {
	at := time.Date(2026, 11, 5, 14, 3, 22, 0, time.Local)
	got := changesTable([]client.Change{
		{Message: id.ID{6: 0x70, 15: 1}.String(), State: string(record.Invalidated), At: at.AddDate(0, 0, -1), Actor: "agent:assistant", Tool: "files.read", Interaction: id.ID{6: 0x70, 15: 2}.String(), Reason: strings.Repeat("because ", 30)},
		{Message: id.ID{6: 0x70, 15: 1}.String(), State: string(record.Archived), At: at, Actor: "agent:assistant", Undone: at, UndoneBy: "local"},
	}, 80, at)
	want := "Yesterday\n14:03  00000001  obsolete  files.read  00000002  because because because becaus…\n\n" +
		"Today\n14:03  00000001  archived  assistant   -         reverted 14:03 by you\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestBranchTree(t *testing.T) {
	got := branchTree([]client.Branch{{NewBranch: client.NewBranch{ID: "main"}, Messages: 1, Begins: strings.Repeat("word ", 60)},
		{NewBranch: client.NewBranch{ID: "01a1ff91-ec25-7616-9776-23ad9ef899bc", Preferred: true, Title: "B\x1b"}, Stem: "main", Messages: 10, Begins: "b"}}, 60)
	want := "  main         1 message    word word word word word word w…\n* └─ 9ef899bc  10 messages  B : b\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(branchTree([]client.Branch{{NewBranch: client.NewBranch{ID: "main"}, Begins: strings.Repeat("word ", 300)}}, 0)) {
		if len(line) > 230 {
			t.Error(line)
		}
	}
	sib := siblingsTable([]client.Sibling{{Branch: "main", Message: id.ID{15: 1}.String()}, {Branch: "01a1ff91-ec25-7616-9776-23ad9ef899bc", Message: id.ID{15: 2}.String(), Preferred: true}}, []*apiMessage{
		{Message: &message.Message{Role: message.User, Blocks: textBlocks(strings.Repeat("word ", 60))}}, {Message: &message.Message{Role: message.Assistant, Blocks: textBlocks("x")}}}, 60)
	want = "  00000001  main      you        word word word word word w…\n* 00000002  9ef899bc  assistant  x\n"
	if sib != want {
		t.Errorf("%s\nwant\n%s", sib, want)
	}
}

// An ambiguous part of an id is refused with the full ids.
func TestPartsOfSeveralIDs(t *testing.T) {
	var many []string
	for i := range 9 {
		many = append(many, "10000000-0000-7000-8000-00000000000"+string(rune('0'+i)))
	}
	same := func(s string) string { return s }
	err := fault.Of(ambiguous("message", "messages", "1000000", many, same))
	if err.Code != "message_ambiguous" || err.Remedy != "name one of them: 00000000, 00000001, 00000002, 00000003, 00000004, 00000005, 00000006, 00000007, …" {
		t.Error(err)
	}
	err = fault.Of(ambiguous("message", "messages", "00aaaa", []string{"00000000-0000-7000-8000-00000000aaaa", "10000000-0000-7000-8000-00000000aaaa"}, same))
	if !strings.Contains(err.Remedy, "10000000-0000-7000-8000-00000000aaaa") {
		t.Error(err)
	}
}

func textBlocks(text string) []message.Block { return []message.Block{&message.Text{Text: text}} }
