package wire

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// vendorChunks is one event of each vendor's stream: the most frequent one, with a few words of text.
var vendorChunks = []struct{ vendor, data string }{
	{"openai", `{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" can I help you"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x7Kq"}`},
	{"responses", `{"type":"response.output_text.delta","item_id":"msg_67c9fdcf37fc8190ba82116e33fb28c500","output_index":0,"content_index":0,"delta":" can I help you","logprobs":[],"sequence_number":4,"obfuscation":"x7Kq"}`},
	{"anthropic", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" can I help you"}}`},
	{"gemini", `{"candidates": [{"content": {"parts": [{"text": " How can I help"}], "role": "model"}, "index": 0}], "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11}, "modelVersion": "gemini-3-flash-preview", "responseId": "vXrAaKmIF9-_jMcP4bHxqAk"}`},
	{"ollama", `{"model":"qwen3:8b","created_at":"2026-11-21T12:00:00.000074Z","message":{"role":"assistant","content":" How can I help"},"done":false}`},
}

// jsonReader is the part of a decoder that reading a chunk takes.
type jsonReader interface {
	Object(member func(key []byte))
	Array(element func(i int))
	Bytes() []byte
	Int() int64
	IsObject() bool
	End() error
}

// readChunk reads what a client of a vendor reads of a chunk, and returns the bytes of its text.
func readChunk(d jsonReader) (text int) {
	var member func(key []byte)
	element := func(int) { d.Object(member) }
	member = func(key []byte) {
		switch string(key) {
		case "choices", "candidates", "parts":
			d.Array(element)
		case "content", "delta": // of one vendor an object, of another the text
			if d.IsObject() {
				d.Object(member)
			} else {
				text += len(d.Bytes())
			}
		case "message", "usageMetadata":
			d.Object(member)
		case "text":
			text += len(d.Bytes())
		case "type", "id", "model", "modelVersion", "finish_reason":
			d.Bytes()
		case "index", "output_index", "content_index", "promptTokenCount", "totalTokenCount":
			d.Int()
		}
	}
	d.Object(member)
	return text
}

// tokens reads as Decoder does, over a jsontext.Decoder.
type tokens struct {
	in  bytes.Buffer
	dec jsontext.Decoder
	out []byte
	err error
}

// reset makes the decoder read other JSON.
func (d *tokens) reset(b []byte) {
	d.in = *bytes.NewBuffer(b)
	d.dec.Reset(&d.in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	d.err = nil
}

func (d *tokens) fail(err error) bool {
	if err != nil && d.err == nil {
		d.err = err
	}
	return d.err != nil
}

func (d *tokens) End() error     { return d.err }
func (d *tokens) IsObject() bool { return d.err == nil && d.dec.PeekKind() == '{' }

func (d *tokens) each(open, end jsontext.Kind, part func()) {
	if d.err != nil {
		return
	}
	if d.dec.PeekKind() != open {
		d.fail(d.dec.SkipValue())
		return
	}
	if _, err := d.dec.ReadToken(); d.fail(err) {
		return
	}
	for d.dec.PeekKind() != end {
		if part(); d.err != nil {
			return
		}
	}
	_, err := d.dec.ReadToken()
	d.fail(err)
}

func (d *tokens) Object(member func(key []byte)) {
	d.each('{', '}', func() {
		raw, err := d.dec.ReadValue()
		if d.fail(err) {
			return
		}
		key := raw[1 : len(raw)-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key, _ = jsontext.AppendUnquote(nil, raw)
		}
		at := d.dec.InputOffset()
		if member(key); d.err == nil && d.dec.InputOffset() == at {
			d.fail(d.dec.SkipValue())
		}
	})
}

func (d *tokens) Array(element func(i int)) {
	i := 0
	d.each('[', ']', func() {
		at := d.dec.InputOffset()
		if element(i); d.err == nil && d.dec.InputOffset() == at {
			d.fail(d.dec.SkipValue())
		}
		i++
	})
}

func (d *tokens) Bytes() []byte {
	if d.err != nil {
		return nil
	}
	raw, err := d.dec.ReadValue()
	if d.fail(err) || raw.Kind() != '"' {
		return nil
	}
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	d.out, _ = jsontext.AppendUnquote(d.out[:0], raw)
	return d.out
}

func (d *tokens) Int() int64 {
	if d.err != nil {
		return 0
	}
	raw, err := d.dec.ReadValue()
	if d.fail(err) || raw.Kind() != '0' {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	d.fail(err)
	return n
}

// BenchmarkChunk compares Decoder with jsontext, of which one decoder reads all chunks. Decoder says what came out.
func BenchmarkChunk(b *testing.B) {
	for _, c := range vendorChunks {
		data := []byte(c.data)
		run := func(name string, read func() (int, error)) {
			b.Run(c.vendor+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					if n, err := read(); err != nil || n < len(" can I help") {
						b.Fatal(n, err)
					}
				}
			})
		}
		run("own", func() (int, error) {
			d := Decode(data)
			return readChunk(d), d.End()
		})
		var d tokens
		run("jsontext", func() (int, error) {
			d.reset(data)
			return readChunk(&d), d.End()
		})
	}
}
