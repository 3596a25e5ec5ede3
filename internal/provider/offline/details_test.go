package offline_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// oneTool says something over a single tool (and one that never fits) and
// returns the calls.
func oneTool(t *testing.T, say, name, description, schema string) string {
	t.Helper()
	r := ask(t, newProvider().Model(""), &llm.Request{Transcript: llm.NewTranscript(user(say)), Tools: llm.NewToolset(
		tool.Spec{Name: name, Description: description, Input: []byte(schema), Effect: tool.Query},
		tool.Spec{Name: "zebra.groom", Description: "Grooms a zebra.", Input: []byte(`{"type":"object"}`)},
		tool.Spec{Name: "broken.tool", Description: description, Input: []byte(`{"type":`)})})
	var out []string
	for _, c := range callsOf(r) {
		out = append(out, c.Name+string(c.Args))
	}
	return strings.Join(out, " ")
}

func object(props, required string) string {
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, props, required)
}

func TestArguments(t *testing.T) {
	root := object(`"number":{"type":"number","description":"the number whose root is wanted"},"degree":{"type":"integer","description":"2 for the square root, 3 for the cube root","default":2}`, `"number"`)
	for _, x := range []struct{ say, name, desc, schema, want string }{
		{"square root of 144", "math.root", "Takes a root.", root, `{"degree":2,"number":144}`},
		{"what's the cube root of 27?", "math.root", "Takes a root.", root, `{"degree":3,"number":27}`},
		{"the root of 16", "math.root", "Takes a root.", root, `{"number":16}`},
		{"how much is 12 percent of 80?", "math.percentage", "Computes a percentage.", object(`"percent":{"type":"number"},"of":{"type":"number"}`, `"percent","of"`), `{"of":80,"percent":12}`},
		{"what is (2+3) times 4?", "math.evaluate", "Evaluates an expression.", object(`"expression":{"type":"string","description":"the formula"}`, `"expression"`), `{"expression":"(2 + 3) * 4"}`},
		{"set the fade to 35%", "light.fade", "Sets how far a light fades.", object(`"fraction":{"type":"number","minimum":0,"maximum":1,"description":"how far it fades"}`, `"fraction"`), `{"fraction":0.35}`},
		{"snooze the alarm for 20 minutes", "alarm.snooze", "Snoozes the alarm.", object(`"duration":{"type":"string","format":"duration"}`, `"duration"`), `{"duration":"PT20M"}`},
		{"snooze the alarm for 90 minutes", "alarm.snooze", "Snoozes the alarm.", object(`"duration":{"type":"string","description":"a Go duration"}`, `"duration"`), `{"duration":"1h30m"}`},
		{"snooze the alarm for 20 minutes", "alarm.snooze", "Snoozes the alarm.", object(`"duration":{"type":"string","description":"how long"}`, `"duration"`), `{"duration":"20 minutes"}`},
		{"snooze the alarm for 2 months", "alarm.snooze", "Snoozes the alarm.", object(`"months":{"type":"integer"}`, `"months"`), `{"months":2}`},
		{"snooze the alarm for 2 hours", "alarm.snooze", "Snoozes the alarm.", object(`"length":{"type":"number","description":"duration"}`, `"length"`), `{"length":2}`},
		{"ship a box of 500 g", "box.ship", "Ships a box.", object(`"weight_kg":{"type":"number"}`, `"weight_kg"`), `{"weight_kg":0.5}`},
		{"transfer 12.50 dollars to Anna", "money.transfer", "Transfers money.", object(`"amount":{"type":"number"},"currency":{"type":"string"},"to":{"type":"string","description":"Who gets it"}`, `"amount","currency","to"`), `{"amount":12.5,"currency":"USD","to":"Anna"}`},
		{"transfer $12 to Anna", "money.transfer", "Transfers money.", object(`"amount":{"type":"number"},"currency":{"type":"string"},"to":{"type":"string","description":"Who gets it"}`, `"amount","currency","to"`), `{"amount":12,"currency":"USD","to":"Anna"}`},
		{"translate “hello” into Spanish", "text.translate", "Translates a text.", object(`"text":{"type":"string"},"language":{"type":"string","description":"ISO 639-1 code"}`, `"text","language"`), `{"language":"es","text":"hello"}`},
		{"show order #4512", "order.show", "Shows an order.", object(`"order":{"type":"integer","description":"number of the order"}`, `"order"`), `{"order":4512}`},
		{"open https://example.org/a?b=1", "web.open", "Opens a page.", object(`"url":{"type":"string","format":"uri"}`, `"url"`), `{"url":"https://example.org/a?b=1"}`},
		{"call +49 170 1234567", "phone.call", "Calls a number.", object(`"phone":{"type":"string"}`, `"phone"`), `{"phone":"+49 170 1234567"}`},
		{"turn the radio off", "radio.switch", "Switches the radio.", object(`"on":{"type":"boolean"}`, `"on"`), `{"on":false}`},
		{"enable the radio", "radio.switch", "Switches the radio.", object(`"enabled":{"type":"boolean"}`, `"enabled"`), `{"enabled":true}`},
		{"order a pizza without cheese", "pizza.order", "Orders a pizza.", object(`"cheese":{"type":"boolean"}`, ``), `{"cheese":false}`},
		{"paint the wall red and green", "wall.paint", "Paints the wall.", object(`"colors":{"type":"array","items":{"type":"string","enum":["red","green","blue"]}}`, `"colors"`), `{"colors":["red","green"]}`},
		{"average of 3, 5 and 8.5", "math.average", "Averages numbers.", object(`"values":{"type":"array","items":{"type":"number"}}`, `"values"`), `{"values":[3,5,8.5]}`},
		{"ship the box to “Main Street 4” in Berlin", "box.ship", "Ships a box.", object(`"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}},"required":["street","city"]}`, `"address"`), `{"address":{"city":"Berlin","street":"Main Street 4"}}`},
		{"set the gate to mode 2", "gate.set", "Sets the gate.", object(`"mode":{"enum":[1,2,3]}`, `"mode"`), `{"mode":2}`},
		{"set the gate", "gate.set", "Sets the gate.", object(`"mode":{"const":"auto"}`, `"mode"`), `{"mode":"auto"}`},
		{"what time is it in São Paulo?", "clock.now", "Tells the time.", object(`"tz":{"type":"string","description":"IANA time zone"}`, `"tz"`), `{"tz":"America/Sao_Paulo"}`},
		{"what time is it in Europe/Oslo?", "clock.now", "Tells the time.", object(`"tz":{"type":"string","description":"IANA time zone"}`, `"tz"`), `{"tz":"Europe/Oslo"}`},
		{"rename the file a.txt to b.txt", "file.rename", "Renames a file.", object(`"from":{"type":"string"},"to":{"type":"string"}`, `"from","to"`), `{"from":"a.txt","to":"b.txt"}`},
		{"tell Anna that I am late", "message.tell", "Sends a message to a person.", object(`"person":{"type":"string"},"text":{"type":"string"}`, `"person","text"`), `{"person":"Anna","text":"I am late"}`},
		{"write a note: buy milk, eggs and bread", "note.write", "Writes a note.", object(`"text":{"type":"string"}`, `"text"`), `{"text":"buy milk, eggs and bread"}`},
		{"set the pin of the door to 1234", "door.pin", "Sets the pin of the door.", object(`"pin":{"type":"string","pattern":"^[0-9]{4}$"}`, `"pin"`), `{"pin":"1234"}`},
		{"set the dimmer lamp to 50", "dimmer.set", "Sets the dimmer.", object(`"v":{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"v"`), `{"v":50}`},
		{"restart at 2026-03-05T10:00:00+02:00", "server.restart", "Restarts at a time.", object(`"at":{"type":"string","format":"date-time"}`, `"at"`), `{"at":"2026-03-05T10:00:00+02:00"}`},
		{"groom the lion", "lion.groom", "Grooms the lion.", ``, `{}`},
		// optional ones that do not hold are left out
		{"label the box with the word “x” and 5", "box.label", "Labels a box.", `{"type":"object","properties":{"word":{"type":"string"},"count":{"type":"integer"}},"required":["word"],"not":{"required":["count"]}}`, `{"word":"x"}`},
	} {
		if got := oneTool(t, x.say, x.name, x.desc, x.schema); got != x.name+x.want {
			t.Errorf("%q: %s, want %s", x.say, got, x.want)
		}
	}
}

func TestNothingIsInvented(t *testing.T) {
	for _, x := range []struct{ say, name, desc, schema string }{
		{"set the oven", "oven.set", "Sets the oven.", object(`"degrees":{"type":"integer","description":"temperature"}`, `"degrees"`)},
		{"set the oven to 900 degrees", "oven.set", "Sets the oven.", object(`"degrees":{"type":"integer","maximum":300}`, `"degrees"`)},
		{"set the oven mode", "oven.set", "Sets the oven.", object(`"mode":{"type":"string","enum":["grill","fan"]}`, `"mode"`)},
		{"set the oven to 200.5", "oven.set", "Sets the oven.", object(`"value":{"type":"integer"}`, `"value"`)},
		{"remind Anna", "oven.remind", "Reminds somebody.", object(`"at":{"type":"string","format":"date-time"}`, `"at"`)},
		{"groom the oven", "oven.groom", "Grooms the oven.", `{"type":"object","minProperties":2}`},
		{"groom the oven", "oven.groom", "Grooms the oven.", `{"type":"object","$ref":"http://example.org/x"}`},
	} {
		if got := oneTool(t, x.say, x.name, x.desc, x.schema); got != "" {
			t.Errorf("%q: %s", x.say, got)
		}
	}
}

func TestResultsAreUsed(t *testing.T) {
	for result, want := range map[string]string{
		`{"result":42,"other":1}`: `"b":42`, `{"value":7}`: `"b":7`, `{"x":3,"note":"three"}`: `"b":3`, "The sum is 1,000 and more": `"b":1000`, "no number": "", `{"x":3,"y":4}`: "", "6 × 7 = 42": `"b":42`,
	} {
		c := newConversation(t)
		c.run["math.multiply"] = func(map[string]any) (string, message.Status) { return result, message.OK }
		c.say("multiply 6 by 7, then add 5 to the result")
		last := c.made[len(c.made)-1]
		if want == "" && len(c.made) != 1 || want != "" && !strings.Contains(last, want) {
			t.Errorf("%s: %v", result, c.made)
		}
	}
	for result, want := range map[string]string{`{"result":"abc"}`: `"abc"`, `"quoted"`: `"quoted"`, `{"only":"this"}`: `"this"`, "plain text": `"plain text"`} {
		c := newConversation(t)
		c.run["weather.current"] = func(map[string]any) (string, message.Status) { return result, message.OK }
		c.say("tell me the weather in Oslo, then hash the result")
		if last := c.made[len(c.made)-1]; !strings.Contains(last, want) {
			t.Errorf("%s: %v", result, c.made)
		}
	}
	c := newConversation(t)
	c.run["orders.create"] = func(map[string]any) (string, message.Status) { return `{"id":981}`, message.OK }
	c.say(`Create an order of 3 pieces of the article "soap", then cancel it.`)
	if last := c.made[len(c.made)-1]; last != `orders.cancel{"order_id":"981"}` {
		t.Errorf("%v", c.made)
	}
}

func cosine(a, b []float32) float64 {
	var s float64
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

func vectors(t *testing.T, texts ...string) [][]float32 {
	t.Helper()
	e := newProvider().Embedder("")
	v, err := e.Embed(context.Background(), texts)
	if err != nil || v.Model != "offline/lexical" || len(v.Values) != len(texts) {
		t.Fatalf("%v %v", v.Model, err)
	}
	return v.Values
}

func TestEmbedder(t *testing.T) {
	v := vectors(t, "Find the weather forecast for a city", "what will the weather be in this city", "Send an invoice to a customer", "Find the weather forecast for a city", "", "日本語 テキスト", "weather")
	for i, x := range v {
		if n := cosine(x, x); len(x) != 256 || i != 4 && math.Abs(n-1) > 1e-5 || i == 4 && n != 0 {
			t.Errorf("vector %d has length %v", i, n)
		}
	}
	if near, far := cosine(v[0], v[1]), cosine(v[0], v[2]); near < far+0.3 {
		t.Errorf("near %v, far %v", near, far)
	}
	if cosine(v[0], v[3]) < 0.99999 || cosine(v[0], v[6]) < 0.25 {
		t.Error("the same is not the same")
	}
	if typo := vectors(t, "calendar appointment", "calender apointment", "chocolate cake"); cosine(typo[0], typo[1]) < cosine(typo[0], typo[2])+0.02 {
		t.Errorf("letters do not count: %v, %v", cosine(typo[0], typo[1]), cosine(typo[0], typo[2]))
	}
	for range 20 {
		if again := vectors(t, "Find the weather forecast for a city"); fmt.Sprint(again[0]) != fmt.Sprint(v[0]) {
			t.Fatal("the same text gives another vector")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := newProvider().Embedder("x").Embed(ctx, []string{"a"}); !fault.HasCode(err, "cancelled") {
		t.Errorf("%v", err)
	}
}

func TestEmbeddingsFindTools(t *testing.T) {
	var names, texts []string
	for _, d := range tuningDomains[:12] {
		for _, x := range d.tools {
			names, texts = append(names, x.name), append(texts, strings.ReplaceAll(x.name, ".", " ")+" "+x.desc)
		}
	}
	index := vectors(t, texts...)
	right, all := 0, 0
	g := generator{newRand(3)}
	for _, d := range tuningDomains[:12] {
		for _, x := range d.tools {
			q := vectors(t, g.say(x).text)[0]
			better := 0
			own := 0.0
			for i := range index {
				if names[i] == x.name {
					own = cosine(q, index[i])
				}
			}
			for i := range index {
				if cosine(q, index[i]) > own {
					better++
				}
			}
			all++
			if better < 5 {
				right++
			}
		}
	}
	t.Logf("the right tool is among the first five for %d of %d", right, all)
	if float64(right) < 0.85*float64(all) {
		t.Errorf("only %d of %d", right, all)
	}
}

func TestManyToolsets(t *testing.T) {
	p := newProvider()
	sets := make([]*llm.Toolset, 100)
	for i := range sets {
		sets[i] = llm.NewToolset(tool.Spec{Name: fmt.Sprintf("lamp%d.dim", i), Description: "Dims the lamp.", Input: []byte(`{"type":"object"}`)})
	}
	done := make(chan string)
	for w := range 4 {
		go func() {
			for i := range sets {
				r := ask(t, p.Model(""), &llm.Request{Transcript: llm.NewTranscript(user("dim the lamp")), Tools: sets[(i+w*7)%100]})
				if len(callsOf(r)) != 1 {
					done <- "no call"
					return
				}
			}
			done <- ""
		}()
	}
	for range 4 {
		if s := <-done; s != "" {
			t.Error(s)
		}
	}
}
