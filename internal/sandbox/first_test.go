package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

func sleeper(t testing.TB, argv ...string) int {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// A process that sleeps looks the same for ever, until its memory is written to.
func TestFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("reading another process's memory needs root")
	}
	for _, argv := range [][]string{{"cat"}, {"sleep", "infinity"}} {
		pid := sleeper(t, argv...)
		f := NewFirst(pid)
		if f == nil {
			t.Fatalf("%s: nothing can be said of it", argv)
		}
		for range 20 {
			if err := f.Changed(); err != nil {
				t.Fatalf("%s: %v", argv, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := tamper(pid); err != nil {
			t.Fatal(err)
		}
		if err := f.Changed(); !errors.Is(err, ErrDead) {
			t.Errorf("%s, written to: %v", argv, err)
		}
	}
	for _, script := range []string{"while :; do (read -r line); done", "while :; do sleep 5 & wait; done"} {
		if f := NewFirst(sleeper(t, "sh", "-c", script)); f != nil {
			t.Errorf("a shell that goes on is no sleeper: %s", script)
		}
	}
	// One that is at work is not what it was, whenever that is seen.
	awake := &First{pid: sleeper(t, "sh", "-c", "while :; do :; done")}
	for range 20 {
		if err := awake.Changed(); !errors.Is(err, ErrDead) {
			t.Errorf("at work: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	var none *First
	if err := none.Changed(); err != nil {
		t.Error(err)
	}
}

// tamper changes one byte of a process's own memory.
func tamper(pid int) error {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer maps.Close()
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	var from, to int64
	if _, err := fmt.Fscanf(maps, "%x-%x", &from, &to); err != nil {
		return err
	}
	_, err = mem.WriteAt([]byte{1}, to-1)
	return err
}
