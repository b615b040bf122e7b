// Command probe finds out from inside a sandbox what a process there can reach,
// and uses memory there. The conformance suite compiles it and puts it in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "network":
		if err := json.NewEncoder(os.Stdout).Encode(network()); err != nil {
			fatal(err)
		}
	case len(os.Args) == 3 && os.Args[1] == "eat":
		mib, err := strconv.Atoi(os.Args[2])
		if err != nil {
			fatal(err)
		}
		eat(mib)
	default:
		fatal(errors.New("usage: probe network | eat MIB"))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(1)
}

// eat uses memory, page by page, and then says so.
func eat(mib int) {
	var kept [][]byte
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
	fmt.Println("ate", len(kept))
}

// network answers "" for what works and the error for what does not.
func network() map[string]string {
	facts := map[string]string{}
	interfaces, err := net.Interfaces()
	if err != nil {
		facts["interfaces"] = err.Error()
	}
	for _, i := range interfaces {
		facts["interfaces"] += i.Name + " "
	}
	for name, address := range map[string]string{
		"tcp4": "192.0.2.1:80", "tcp6": "[2001:db8::1]:80", "metadata": "169.254.169.254:80", "resolver": "8.8.8.8:53",
	} {
		facts[name] = dial("tcp", address)
	}
	facts["udp4"] = dial("udp", "192.0.2.1:53")
	facts["udp6"] = dial("udp", "[2001:db8::1]:53")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = net.DefaultResolver.LookupHost(ctx, "example.org")
	facts["dns"] = text(err)
	_, err = net.DefaultResolver.LookupHost(ctx, "localhost")
	facts["localhost"] = text(err)
	facts["raw"] = raw(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	facts["packet"] = raw(syscall.AF_PACKET, syscall.SOCK_RAW, 0x0300)
	facts["loopback4"] = echo("127.0.0.1:0")
	facts["loopback6"] = echo("[::1]:0")
	return facts
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func dial(network, address string) string {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err == nil {
		_, err = c.Write([]byte("x"))
		c.Close()
	}
	return text(err)
}

func raw(domain, kind, protocol int) string {
	fd, err := syscall.Socket(domain, kind, protocol)
	if err == nil {
		syscall.Close(fd)
	}
	return text(err)
}

// echo sends a byte to itself.
func echo(address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := net.DialTimeout("tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		return err.Error()
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return text(err)
}
