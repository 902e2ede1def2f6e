// Command candidate is the plain, idiomatic use of client-go's leader election around a command: kleader's rival.
//
//	candidate -kubeconfig F -namespace NS -name LOCK -identity ID [options] COMMAND [ARG]...
//
// It runs COMMAND in OnStartedLeading. TERM or INT cancels the election's context, so that, as client-go has it, the lease
// is released first and the command killed after, in OnStoppedLeading. With -stop-first the command is stopped and waited
// for before the context is cancelled: what a fleet that shares the lock with kleader needs on a planned stop.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const stopTimeout = 25 * time.Second

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	namespace := flag.String("namespace", "default", "namespace of the Lease")
	name := flag.String("name", "", "name of the Lease")
	identity := flag.String("identity", "", "this candidate's identity")
	leaseDuration := flag.Duration("lease-duration", 15*time.Second, "LeaseDuration")
	renewDeadline := flag.Duration("renew-deadline", 10*time.Second, "RenewDeadline")
	retryPeriod := flag.Duration("retry-period", 2*time.Second, "RetryPeriod")
	releaseOnCancel := flag.Bool("release-on-cancel", true, "ReleaseOnCancel")
	stopFirst := flag.Bool("stop-first", false, "on TERM stop the command before the lease is released")
	flag.Parse()
	if *name == "" || *identity == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatalf("kubeconfig: %v", err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	work := &command{args: flag.Args(), identity: *identity}

	lost := false
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		if *stopFirst {
			work.stop(syscall.SIGTERM)
		}
		cancel()
	}()

	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		ReleaseOnCancel: *releaseOnCancel,
		LeaseDuration:   *leaseDuration,
		RenewDeadline:   *renewDeadline,
		RetryPeriod:     *retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				work.run()
				cancel() // the command ended: so does this candidate
			},
			OnStoppedLeading: func() {
				lost = ctx.Err() == nil
				work.stop(syscall.SIGKILL)
			},
			OnNewLeader: func(leader string) { klog.Infof("leader: %s", leader) },
		},
	})
	klog.Flush()
	if lost {
		os.Exit(1)
	}
	os.Exit(work.status())
}

// command is the process that runs while leading.
type command struct {
	args     []string
	identity string

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{}
	stopped bool
}

// run starts the command and returns when it has ended; it starts nothing once stop was called.
func (c *command) run() {
	runtime.LockOSThread() // Pdeathsig is bound to the thread that started the process
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return
	}
	c.cmd = exec.Command(c.args[0], c.args[1:]...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.cmd.Env = append(os.Environ(), "KLEADER_IDENTITY="+c.identity)
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
}

// stop signals the command's process group and returns once the command has ended, killed if need be.
func (c *command) stop(sig syscall.Signal) {
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

// status is the command's own, 0 where it never ran or a signal ended it.
func (c *command) status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil || c.cmd.ProcessState == nil {
		return 0
	}
	return max(0, c.cmd.ProcessState.ExitCode())
}
