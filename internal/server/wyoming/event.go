package wyoming

import (
	"bufio"
	"errors"
	"io"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// event is an event of the protocol. Its payload, which is audio, is skipped.
type event struct {
	Type string
	Data map[string]jsontext.Value
}

// header is the line with which an event begins. The data may stand in it, follow it, or both.
type header struct {
	Type          string                    `json:"type"`
	Version       string                    `json:"version,omitzero"`
	Data          map[string]jsontext.Value `json:"data,omitzero"`
	DataLength    int64                     `json:"data_length,omitzero"`
	PayloadLength int64                     `json:"payload_length,omitzero"`
}

// The bounds of an event, in bytes.
const (
	maxLine    = 64 << 10
	maxData    = 64 << 10
	maxPayload = 1 << 20
)

// version is the version of the protocol's reference implementation that the events follow.
const version = "1.7.2"

// readEvent reads the next event. An error of the kinds Invalid and TooLarge is the client's fault; after it, nobody
// knows where the next event begins.
func readEvent(in *bufio.Reader) (*event, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Type == "" {
		return nil, fault.New(fault.Invalid, "event_invalid", "an event begins with a line of JSON that has a type")
	}
	switch {
	case h.DataLength < 0 || h.PayloadLength < 0:
		return nil, fault.New(fault.Invalid, "event_invalid", "the length of an event is negative")
	case h.DataLength > maxData || h.PayloadLength > maxPayload:
		return nil, tooLarge()
	}
	e := &event{Type: h.Type, Data: h.Data}
	if h.DataLength > 0 {
		data := make([]byte, h.DataLength)
		if _, err := io.ReadFull(in, data); err != nil {
			return nil, err
		}
		var more map[string]jsontext.Value
		if err := json.Unmarshal(data, &more); err != nil {
			return nil, fault.New(fault.Invalid, "event_invalid", "the data of an event is not a JSON object")
		}
		if e.Data == nil {
			e.Data = more
		} else {
			maps.Copy(e.Data, more)
		}
	}
	_, err = io.CopyN(io.Discard, in, h.PayloadLength)
	return e, err
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, tooLarge()
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func tooLarge() error {
	return fault.New(fault.TooLarge, "too_large", "an event exceeds the limit of %d bytes", maxLine)
}

// writeEvent writes an event in one piece, in the form of the reference implementation: the data follow the line.
func writeEvent(w io.Writer, e *event) error {
	h := header{Type: e.Type, Version: version}
	var data []byte
	if len(e.Data) > 0 {
		data = encode(e.Data)
		h.DataLength = int64(len(data))
	}
	_, err := w.Write(append(append(encode(h), '\n'), data...))
	return err
}

// encode writes a value of an event. Invalid UTF-8 becomes U+FFFD; these types have no other errors.
func encode(v any) jsontext.Value {
	b, _ := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false), json.Deterministic(true))
	return b
}

// text returns a text of the data, or "".
func (e *event) text(name string) string { return textOf(e.Data[name]) }

func textOf(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// with returns the data of an answer: a text, and the context of the question.
func (e *event) with(name, text string) map[string]jsontext.Value {
	data := map[string]jsontext.Value{name: encode(text)}
	if c := e.Data["context"]; c.Kind() == '{' {
		data["context"] = c
	}
	return data
}

// failure returns an error as an event.
func failure(err error) *event {
	e := fault.Of(err)
	return &event{Type: "error", Data: map[string]jsontext.Value{"text": encode(e.Message), "code": encode(e.Code)}}
}
