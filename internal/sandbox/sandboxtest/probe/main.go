// Command probe finds out from inside a sandbox what a process there can reach,
// and uses memory there. The conformance suite compiles it and puts it in.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "network":
		if err := json.NewEncoder(os.Stdout).Encode(network()); err != nil {
			fatal(err)
		}
	case len(os.Args) == 2 && os.Args[1] == "attempts":
		if err := json.NewEncoder(os.Stdout).Encode(attempts()); err != nil {
			fatal(err)
		}
	case len(os.Args) == 3 && os.Args[1] == "eat":
		mib, err := strconv.Atoi(os.Args[2])
		if err != nil {
			fatal(err)
		}
		eat(mib)
	case len(os.Args) == 3 && os.Args[1] == "deep":
		if err := deep(os.Args[2]); err != nil {
			fatal(err)
		}
	case len(os.Args) == 3 && os.Args[1] == "listen":
		l, err := net.Listen("unix", "@"+os.Args[2])
		if err != nil {
			fatal(err)
		}
		for {
			if c, err := l.Accept(); err == nil {
				c.Close()
			}
		}
	case len(os.Args) == 3 && os.Args[1] == "connect":
		if _, err := net.Dial("unix", "@"+os.Args[2]); err != nil {
			fatal(err)
		}
	default:
		fatal(errors.New("usage: probe network | attempts | eat MIB | deep FOLDER | listen NAME | connect NAME"))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(1)
}

// deep makes a folder whose innermost has a path several times as long as the
// system takes.
func deep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	name := strings.Repeat("d", 200)
	for range 100 {
		if err := syscall.Mkdir(name, 0o755); err != nil {
			return err
		}
		if err := syscall.Chdir(name); err != nil {
			return err
		}
	}
	fd, err := syscall.Creat("file", 0o644)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
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
	facts["metadata udp"] = dial("udp", "169.254.169.254:53")
	facts["resolver udp"] = dial("udp", "8.8.8.8:53")
	facts["multicast"] = dial("udp", "224.0.0.251:5353")
	facts["broadcast"] = dial("udp", "255.255.255.255:67")
	facts["new route"] = newRoute()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = net.DefaultResolver.LookupHost(ctx, "example.org")
	facts["dns"] = text(err)
	_, err = net.DefaultResolver.LookupHost(ctx, "localhost")
	facts["localhost"] = text(err)
	facts["raw"] = raw(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	facts["raw6"] = raw(syscall.AF_INET6, syscall.SOCK_RAW, syscall.IPPROTO_ICMPV6)
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

// newRoute asks the kernel for a default route through loopback.
func newRoute() string {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, syscall.NETLINK_ROUTE)
	if err != nil {
		return err.Error()
	}
	defer syscall.Close(fd)
	// nlmsghdr, rtmsg, and the attribute that names interface 1.
	request := make([]byte, 36)
	order := binary.NativeEndian
	order.PutUint32(request[0:], uint32(len(request)))
	order.PutUint16(request[4:], syscall.RTM_NEWROUTE)
	order.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|syscall.NLM_F_CREATE)
	request[16] = syscall.AF_INET
	request[20], request[21], request[22], request[23] = syscall.RT_TABLE_MAIN, syscall.RTPROT_STATIC, syscall.RT_SCOPE_LINK, syscall.RTN_UNICAST
	order.PutUint16(request[28:], 8)
	order.PutUint16(request[30:], syscall.RTA_OIF)
	order.PutUint32(request[32:], 1)
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err.Error()
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return fmt.Sprint("no answer: ", err)
	}
	if code := int32(order.Uint32(answer[16:])); code != 0 {
		return syscall.Errno(-code).Error()
	}
	return ""
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
