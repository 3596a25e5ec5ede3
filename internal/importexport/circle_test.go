package importexport_test

import (
	"strings"
	"testing"

	"steward/internal/importexport"
)

// Messages that follow each other in a circle are all kept, and the report
// says that the circle was cut.
func TestChatGPTCircleKeepsEveryMessage(t *testing.T) {
	node := func(id, parent, text, at string) string {
		return `"` + id + `":{"id":"` + id + `","parent":"` + parent + `","children":[],"message":{"author":{"role":"user"},"create_time":` + at +
			`,"content":{"content_type":"text","parts":["` + text + `"]}}}`
	}
	file := `[{"title":"circle","mapping":{` + node("a", "c", "one", "1700000001") + `,` + node("b", "a", "two", "1700000002") + `,` +
		node("c", "b", "three", "1700000003") + `,` + node("d", "c", "four", "1700000004") + `},"current_node":"d","conversation_id":"x"}]`
	for chat, err := range importexport.Read(strings.NewReader(file), importexport.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(chat.Nodes) != 4 || len(chat.Notes) != 1 || !strings.Contains(chat.Notes[0].Text, "in a circle are kept") {
			t.Errorf("%d messages, notes %v", len(chat.Nodes), chat.Notes)
		}
	}
}
