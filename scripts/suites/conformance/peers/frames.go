package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"
)

// Frames of HTTP/2 by hand: both ends of the flow-control suite do with windows what no library does.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8

	flagEnd        = 1
	flagAck        = 1
	flagEndHeaders = 4

	settingInitialWindow = 4
	initialWindow        = 65_535
	largestFrame         = 16_384
	preface              = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func appendFrame(out []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	size := len(payload)
	out = append(out, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

func appendNumber(out []byte, kind byte, stream, number uint32) []byte {
	return appendFrame(out, kind, 0, stream, binary.BigEndian.AppendUint32(nil, number))
}

func setting(id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), value)
}

// peer is a connection whose frames are read one after the other.
type peer struct {
	net.Conn
	reader *bufio.Reader
	buffer []byte
}

func newPeer(connection net.Conn) *peer {
	return &peer{Conn: connection, reader: bufio.NewReaderSize(connection, largestFrame), buffer: make([]byte, largestFrame)}
}

// next reads a frame; its payload lasts until the next call.
func (p *peer) next() (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(p.reader, head[:]); err != nil {
		return frame{}, err
	}
	size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if size > len(p.buffer) {
		return frame{}, io.ErrShortBuffer
	}
	_, err := io.ReadFull(p.reader, p.buffer[:size])
	return frame{head[3], head[4], binary.BigEndian.Uint32(head[5:]) & 0x7fff_ffff, p.buffer[:size]}, err
}

// get is the field block of a GET, without any table but the static one.
func get(authority, path string) []byte {
	literal := func(out []byte, name byte, value string) []byte {
		return append(append(out, name, byte(len(value))), value...)
	}
	// Indexed :method GET and :scheme http; literals with the names :authority and :path.
	return literal(literal([]byte{0x82, 0x86}, 0x01, authority), 0x04, path)
}

func dialPlain(url string) (*peer, error) {
	connection, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), 10*time.Second)
	if err != nil {
		return nil, err
	}
	return newPeer(connection), nil
}
