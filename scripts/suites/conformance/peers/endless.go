package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
)

// endless is an upstream over HTTP/2 that responds to every request with a body that never ends, and sends all that the windows allow at once: whatever
// a gateway is willing to hold, it has to hold.
func endless(args []string) {
	flags := flag.NewFlagSet("endless", flag.ExitOnError)
	die(flags.Parse(args))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	fmt.Printf("listening on http://%s\n", listener.Addr())
	for {
		connection, err := listener.Accept()
		die(err)
		go func() {
			defer connection.Close()
			(&sender{peer: newPeer(connection), streams: map[uint32]int{}}).run()
		}()
	}
}

type sender struct {
	*peer
	// What may be sent: of the connection, of a new stream, and of each stream.
	window, initial int
	streams         map[uint32]int
}

func (s *sender) run() {
	if _, err := io.ReadFull(s.reader, make([]byte, len(preface))); err != nil {
		return
	}
	s.window, s.initial = initialWindow, initialWindow
	out := appendFrame(nil, frameSettings, 0, 0, nil)
	for {
		if _, err := s.Write(out); err != nil {
			return
		}
		frame, err := s.next()
		if err != nil {
			return
		}
		out = s.handle(out[:0], frame)
	}
}

func (s *sender) handle(out []byte, f frame) []byte {
	switch f.kind {
	case frameSettings:
		if f.flags&flagAck != 0 {
			return out
		}
		for at := 0; at+6 <= len(f.payload); at += 6 {
			if binary.BigEndian.Uint16(f.payload[at:]) == settingInitialWindow {
				s.initial = int(binary.BigEndian.Uint32(f.payload[at+2:]))
			}
		}
		return appendFrame(out, frameSettings, flagAck, 0, nil)
	case framePing:
		if f.flags&flagAck == 0 {
			return appendFrame(out, framePing, flagAck, 0, f.payload)
		}
	case frameHeaders:
		s.streams[f.stream] = s.initial
		// Indexed :status 200.
		out = appendFrame(out, frameHeaders, flagEndHeaders, f.stream, []byte{0x88})
		return s.send(out, f.stream)
	case frameReset:
		delete(s.streams, f.stream)
	case frameWindowUpdate:
		more := int(binary.BigEndian.Uint32(f.payload))
		if f.stream == 0 {
			s.window += more
			for stream := range s.streams {
				out = s.send(out, stream)
			}
		} else if _, open := s.streams[f.stream]; open {
			s.streams[f.stream] += more
			out = s.send(out, f.stream)
		}
	}
	return out
}

func (s *sender) send(out []byte, stream uint32) []byte {
	for {
		size := min(s.window, s.streams[stream], largestFrame)
		if size <= 0 {
			return out
		}
		s.window -= size
		s.streams[stream] -= size
		out = appendFrame(out, frameData, 0, stream, pattern(0, size))
	}
}
