package cloud

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Limits of AWS's framing.
//
// Source: https://smithy.io/2.0/aws/amazon-eventstream.html.
const (
	preludeSize   = 12
	leastFrame    = preludeSize + 4
	largestFrame  = 24 << 20 // bytes
	largestHeader = 128 << 10
)

var errFrame = errors.New("a frame of AWS's event stream is broken")

// frame is one message of an event stream.
type frame struct {
	header  map[string]string // the text values
	payload []byte
}

// readFrame reads one frame. At the end of the stream it returns io.EOF.
func readFrame(r io.Reader) (f frame, err error) {
	var prelude [preludeSize]byte
	if _, err := io.ReadFull(r, prelude[:]); err != nil {
		return f, err // io.EOF only between frames
	}
	total, headers := binary.BigEndian.Uint32(prelude[:]), binary.BigEndian.Uint32(prelude[4:])
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]),
		total < leastFrame, total > largestFrame, headers > largestHeader, headers > total-leastFrame:
		return f, errFrame
	}
	var rest bytes.Buffer // it grows with what arrives, not with what the prelude says
	if n, err := io.CopyN(&rest, r, int64(total-preludeSize)); err != nil {
		if err == io.EOF && n < int64(total-preludeSize) {
			err = io.ErrUnexpectedEOF
		}
		return f, err
	}
	b := rest.Bytes()
	end := len(b) - 4
	sum := crc32.Update(crc32.ChecksumIEEE(prelude[:]), crc32.IEEETable, b[:end])
	if sum != binary.BigEndian.Uint32(b[end:]) {
		return f, errFrame
	}
	f.header, err = readHeader(b[:headers])
	f.payload = b[headers:end]
	return f, err
}

// readHeader reads the text values of a frame's header. Values of other types are skipped.
func readHeader(b []byte) (map[string]string, error) {
	sizes := [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16} // by type; -1: two bytes say
	out := map[string]string{}
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 2+n || int(b[1+n]) >= len(sizes) {
			return nil, errFrame
		}
		name, kind, rest := string(b[1:1+n]), b[1+n], b[2+n:]
		size := sizes[kind]
		if size < 0 {
			if len(rest) < 2 {
				return nil, errFrame
			}
			size, rest = int(binary.BigEndian.Uint16(rest)), rest[2:]
		}
		if len(rest) < size {
			return nil, errFrame
		}
		if kind == 7 {
			out[name] = string(rest[:size])
		}
		b = rest[size:]
	}
	return out, nil
}

// events is a body of Bedrock's that reads as the server-sent events of Anthropic's API, which its
// frames wrap.
type events struct {
	body io.ReadCloser
	buf  bytes.Buffer
	err  error
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.buf.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		f, err := readFrame(e.body)
		if err == nil {
			err = e.translate(f)
		}
		e.err = err
	}
	return e.buf.Read(p)
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }

// kinds are Anthropic's names for the exceptions of InvokeModelWithResponseStream.
//
// Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html.
var kinds = map[string]string{
	"throttlingException": "rate_limit_error", "serviceUnavailableException": "overloaded_error", "internalServerException": "api_error",
	"modelStreamErrorException": "api_error", "modelTimeoutException": "timeout_error", "validationException": "invalid_request_error",
}

// translate writes a frame as a server-sent event. Frames of unknown types are left out.
func (e *events) translate(f frame) error {
	switch f.header[":message-type"] {
	case "event":
		if f.header[":event-type"] != "chunk" {
			return nil
		}
		var chunk struct {
			Bytes []byte `json:"bytes"` // base64
		}
		if err := json.Unmarshal(f.payload, &chunk); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		if bytes.ContainsAny(chunk.Bytes, "\r\n") { // it is JSON, so a line end is white space
			chunk.Bytes = bytes.Map(func(r rune) rune {
				if r == '\r' || r == '\n' {
					return ' '
				}
				return r
			}, chunk.Bytes)
		}
		fmt.Fprintf(&e.buf, "data: %s\n\n", chunk.Bytes)
	case "exception", "error":
		var told struct {
			Message string `json:"message"`
		}
		json.Unmarshal(f.payload, &told) //nolint:errcheck // without a message the type says enough
		name := f.header[":exception-type"] + f.header[":error-code"]
		kind, known := kinds[name]
		if !known {
			kind = "api_error"
		}
		text, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": name + ": " + told.Message + f.header[":error-message"]}})
		if err != nil {
			return err
		}
		fmt.Fprintf(&e.buf, "data: %s\n\n", text)
	}
	return nil
}
