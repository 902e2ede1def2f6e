// Command forlife is a candidate on operator-lib's leader-for-life: a ConfigMap that the Pod owns which leads.
//
//	forlife -kubeconfig F -namespace NS -name LOCK -pod P [-max-backoff D] COMMAND [ARG]...
//
// It runs COMMAND once leader.Become returns. TERM or INT stops the command; nothing is ever released, as operator-lib has
// it: the lock ends with the Pod.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/operator-framework/operator-lib/leader"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"kleader.test/clientgo/command"
)

// readNamespace is operator-lib's way to its namespace: a file at a fixed path, which a test has not. Its own tests
// replace the same variable.
//
//go:linkname readNamespace github.com/operator-framework/operator-lib/leader.readNamespace
var readNamespace func() (string, error)

func main() {
	klog.InitFlags(nil)
	namespace := flag.String("namespace", "default", "namespace of the Pod and of the lock")
	name := flag.String("name", "", "name of the lock")
	pod := flag.String("pod", "", "name of the Pod; operator-lib has it from POD_NAME")
	backoff := flag.Duration("max-backoff", 16*time.Second, "MaxBackoffInterval")
	flag.Parse()
	if *name == "" || *pod == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	logf.SetLogger(klog.Background())
	readNamespace = func() (string, error) { return *namespace, nil }
	os.Setenv("POD_NAME", *pod)
	work := &command.Command{Args: flag.Args(), Identity: *pod}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	kube, err := client.New(config.GetConfigOrDie(), client.Options{})
	if err != nil {
		klog.Fatalf("client: %v", err)
	}
	withBackoff := func(c *leader.Config) error { c.MaxBackoffInterval = *backoff; return nil }
	if err := leader.Become(ctx, *name, leader.WithClient(kube), withBackoff); err != nil {
		if ctx.Err() != nil {
			os.Exit(0)
		}
		klog.Fatalf("leader: %v", err)
	}
	go func() {
		<-ctx.Done()
		work.Stop(syscall.SIGTERM)
	}()
	work.Run()
	klog.Flush()
	os.Exit(work.Status())
}
