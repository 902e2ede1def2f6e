// Package command runs a command while a candidate leads, for any kind of candidate.
package command

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const stopTimeout = 25 * time.Second

// Command is the process that runs while leading.
type Command struct {
	Args     []string
	Identity string

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	stopped bool
}

// Run starts the command, returns when it has ended, and tells whether it did so by itself; it starts nothing once Stop
// was called.
func (c *Command) Run() bool {
	runtime.LockOSThread() // Pdeathsig is bound to the thread that started the process
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return false
	}
	c.cmd = exec.Command(c.Args[0], c.Args[1:]...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.cmd.Env = append(os.Environ(), "KLEADER_IDENTITY="+c.Identity)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.ended = make(chan struct{})
	if err := c.cmd.Start(); err != nil {
		klog.Fatalf("command: %v", err)
	}
	klog.Infof("started the command: pid %d", c.cmd.Process.Pid)
	c.mu.Unlock()
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		klog.Errorf("command: %v", err)
	}
	close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.stopped
}

// Stop signals the command's process group and returns once the command has ended, killed if need be.
func (c *Command) Stop(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.cmd == nil {
		return
	}
	group := -c.cmd.Process.Pid
	select {
	case <-c.ended:
		return
	default:
	}
	_ = syscall.Kill(group, sig)
	select {
	case <-c.ended:
	case <-time.After(stopTimeout):
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-c.ended
	}
	klog.Infof("stopped the command")
}

// Status is the command's own, 0 where it never ran or a signal ended it.
func (c *Command) Status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil || c.cmd.ProcessState == nil {
		return 0
	}
	return max(0, c.cmd.ProcessState.ExitCode())
}
