package llm_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/message/messagetest"
	"steward/internal/tool"
)

// The counts are those of OpenAI's vocabularies cl100k_base and o200k_base,
// taken with github.com/tiktoken-go/tokenizer v0.10.0. The prose is the first
// article of the Universal Declaration of Human Rights.
var samples = []struct {
	name          string
	cl100k, o200k int64
	text          string
}{
	{"english", 33, 33, "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood."},
	{"german", 44, 38, "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen."},
	{"french", 50, 41, "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité."},
	{"finnish", 68, 54, "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä."},
	{"polish", 64, 53, "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa."},
	{"turkish", 60, 46, "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler."},
	{"vietnamese", 84, 49, "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu."},
	{"russian", 74, 41, "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства."},
	{"greek", 172, 71, "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης."},
	{"hebrew", 129, 50, "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה."},
	{"arabic", 88, 44, "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا بروح الإخاء."},
	{"hindi", 180, 54, "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।"},
	{"tamil", 137, 34, "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள்."},
	{"thai", 135, 63, "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ"},
	{"georgian", 144, 21, "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით."},
	{"amharic", 104, 79, "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።"},
	{"chinese", 50, 35, "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"},
	{"japanese", 93, 72, "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。"},
	{"korean", 85, 51, "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다."},
	{"emoji", 49, 31, "🎉🚀👩\u200d👩\u200d👧\u200d👦🏳️\u200d🌈❤️🔥🧑🏽\u200d💻"},
	{"compact", 85, 86, "{\"id\":\"0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d\",\"role\":\"assistant\",\"at\":1763740000123456,\"blocks\":[{\"type\":\"tool_call\",\"call_id\":\"call_9aQx\",\"name\":\"math.multiply\",\"args\":\"{\\\"a\\\":6,\\\"b\\\":7}\"}]}"},
	{"digits", 40, 40, "3.14159265358979323846264338327950288419716939937510 2026-11-21 15:24:52 1,234,567.89"},
	{"hex", 63, 63, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a48810a325ca303eb3014c43ae004970f343634db176fa1697bcc8c9efac94626488d"},
	{"capitals", 28, 26, "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG; SELECT NAME FROM CUSTOMERS WHERE COUNTRY_CODE = 'NL';"},
	{"signs", 28, 28, "!@#$%^&*()_+-=[]{}|;':\",./<>? ~`\\ ->=> != <= && || ?? ::"},
	{"table", 34, 34, "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n"},
	{"math", 52, 51, "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β = ¬(¬α ∨ β), ∑ᵢ aᵢ² ≤ ∞"},
	{"path", 19, 20, "/usr/local/share/x86_64-linux-gnu/pkgconfig/libQt5XcbQpa.pc"},
}

func TestEstimatesAreOnTheSafeSide(t *testing.T) {
	for _, s := range samples {
		got := llm.EstimateTokens(s.text)
		if most := max(s.cl100k, s.o200k); got < most || got > 2*most {
			t.Errorf("%s: estimated %d, counted %d and %d", s.name, got, s.cl100k, s.o200k)
		}
		if b := llm.EstimateTokens([]byte(s.text)); b != got {
			t.Errorf("%s: %d as bytes, %d as a string", s.name, b, got)
		}
	}
}

func TestEstimatesGrowWithTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		whole, parts := llm.EstimateTokens(a+b), llm.EstimateTokens(a)+llm.EstimateTokens(b)
		if whole < llm.EstimateTokens(a) || whole > parts {
			t.Fatalf("%d for both, %d for the parts", whole, parts)
		}
		if whole == 0 && a+b != "" || whole > int64(3*len(a+b)) {
			t.Fatalf("%d tokens for %d bytes", whole, len(a+b))
		}
	})
	if got := llm.EstimateTokens("\xff\xfe"); got == 0 {
		t.Error("bytes that are no text are free")
	}
}

func TestEstimateRequest(t *testing.T) {
	image := &message.Message{Role: message.User, Blocks: []message.Block{&message.Image{MIME: "image/png", Data: make([]byte, 1<<20)}}}
	tr := llm.NewTranscript(textMessage(message.User, strings.Repeat("a word ", 100)))
	base := llm.EstimateRequest(&llm.Request{Transcript: tr})
	if base < 200 || base > 600 {
		t.Errorf("200 words make %d tokens", base)
	}
	more := []*llm.Request{
		{Transcript: tr, System: "Be brief."},
		{Transcript: tr, Schema: &llm.Schema{JSON: []byte(`{"type":"object"}`)}},
		{Transcript: tr, Tools: llm.NewToolset(tool.Spec{Name: "a.b", Input: []byte(`{}`)})},
	}
	for i, r := range more {
		if got := llm.EstimateRequest(r); got <= base {
			t.Errorf("request %d: %d, without it %d", i, got, base)
		}
	}
	tr.Append(image)
	if got := llm.EstimateRequest(&llm.Request{Transcript: tr}) - base; got < 1000 || got > 3000 {
		t.Errorf("a picture makes %d tokens", got)
	}
	for _, c := range []struct {
		least, most int64
		b           message.Block
	}{
		{250, 500, &message.File{MIME: "text/plain", Data: []byte(strings.Repeat("a word ", 100))}},
		{3000, 10000, &message.File{MIME: "application/pdf", Data: make([]byte, 100<<10)}},
		{10, 60, &message.ToolCall{Name: "math.multiply", Args: []byte(`{"a":1}`)}},
		{10, 60, &message.ToolResult{Name: "math.multiply", Content: []message.Block{&message.Text{Text: "42"}}}},
		{300, 400, &message.Reasoning{Text: "hm", Common: message.Common{Meta: message.Meta{Provider: "p", Fields: make([]byte, 1000)}}}},
	} {
		got := llm.NewTranscript(&message.Message{Blocks: []message.Block{c.b}}).Tokens()
		if got < c.least || got > c.most {
			t.Errorf("%T makes %d tokens, want %d to %d", c.b, got, c.least, c.most)
		}
	}
}

func TestTokensOfATranscriptDoNotDependOnWhenTheyAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := messagetest.History().Draw(t, "history")
		tr := llm.NewTranscript()
		for _, m := range msgs {
			tr.Append(m)
			if rapid.Bool().Draw(t, "count now") {
				tr.Tokens()
			}
		}
		if got, want := tr.Tokens(), llm.NewTranscript(msgs...).Tokens(); got != want {
			t.Fatalf("%d in steps, %d at once", got, want)
		}
	})
}

func BenchmarkEstimate(b *testing.B) {
	text := strings.Repeat("All human beings are born free. ", 32)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		llm.EstimateTokens(text)
	}
}
