package wire

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Piece reads a string that is a piece of a longer one. A character may be cut at its ends: bytes that are no
// whole UTF-8 stay, and half of a UTF-16 pair becomes three bytes of its own. Part.Add joins both with what
// follows.
func (d *Decoder) Piece() []byte {
	raw := d.text()
	if raw == nil {
		return nil
	}
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		plain := bytes.IndexByte(in, '\\')
		if plain < 0 {
			plain = len(in)
		}
		out, in = append(out, in[:plain]...), in[plain:]
		if len(in) > 1 {
			out, in = appendEscape(out, in)
		} else {
			break
		}
	}
	return out
}

// appendEscape appends what the escape at the beginning of in stands for. It returns what follows it.
func appendEscape(dst, in []byte) (out, rest []byte) {
	switch c := in[1]; c {
	case 'n':
		return append(dst, '\n'), in[2:]
	case 't':
		return append(dst, '\t'), in[2:]
	case 'r':
		return append(dst, '\r'), in[2:]
	case 'b':
		return append(dst, '\b'), in[2:]
	case 'f':
		return append(dst, '\f'), in[2:]
	case 'u':
		r, ok := unit(in)
		if !ok {
			return utf8.AppendRune(dst, utf8.RuneError), in[2:]
		}
		if low, ok := unit(in[6:]); ok && utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(dst, pair), in[12:]
			}
		}
		return appendUnit(dst, r), in[6:]
	default:
		return append(dst, c), in[2:]
	}
}

// unit reads an escaped UTF-16 unit, such as \ud83d.
func unit(in []byte) (r rune, ok bool) {
	if len(in) < 6 || in[0] != '\\' || in[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(in[2:6]), 16, 16)
	return rune(n), err == nil
}

// appendUnit appends a UTF-16 unit. Half of a pair is written in three bytes as if it were a character, which
// is no valid UTF-8.
func appendUnit(dst []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
}

// half reads half of a pair, as appendUnit writes it.
func half(in []byte) (r rune, ok bool) {
	if len(in) < 3 || in[0] != 0xED || in[1] < 0xA0 || in[1] > 0xBF || in[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(in[1]&0x3F)<<6 | rune(in[2]&0x3F), true
}

// joinPieces returns the whole characters of what was cut off the last piece and of the next one, and what is
// cut off now. What is neither becomes replacement characters.
func joinPieces(cut, piece []byte) (whole, rest []byte) {
	if len(cut) == 0 && utf8.Valid(piece) {
		return piece, nil
	}
	in := append(bytes.Clone(cut), piece...)
	for len(in) > 0 {
		if r, n := utf8.DecodeRune(in); r != utf8.RuneError || n > 1 {
			whole, in = append(whole, in[:n]...), in[n:]
			continue
		}
		high, ok := half(in)
		low, paired := rune(0), false
		if ok {
			low, paired = half(in[3:])
		}
		switch pair := utf16.DecodeRune(high, low); {
		case ok && paired && pair != utf8.RuneError:
			whole, in = utf8.AppendRune(whole, pair), in[6:]
		case ok && len(in) == 3 && high < 0xDC00, !ok && !utf8.FullRune(in):
			return whole, in
		case ok:
			whole, in = utf8.AppendRune(whole, utf8.RuneError), in[3:]
		default:
			whole, in = utf8.AppendRune(whole, utf8.RuneError), in[1:]
		}
	}
	return whole, nil
}
