// Package candidate is the plain, idiomatic use of client-go's leader election around a command: kleader's rival, whatever
// the version of client-go that it is built with.
//
//	PROGRAM -kubeconfig F -namespace NS -name LOCK -identity ID [options] COMMAND [ARG]...
//
// It runs COMMAND in OnStartedLeading. TERM or INT cancels the election's context, so that, as client-go has it, the lock
// is released first and the command killed after, in OnStoppedLeading. With -stop-first no release is sent before the
// command has ended: on a signal it is stopped and waited for before the context is cancelled, and where the leader gives
// up by itself it is killed first. That is what a fleet that shares the lock with kleader needs.
package candidate

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"kleader.test/clientgo/command"
)

const eventTimeout = 5 * time.Second

// Candidate is what the flags say, and what is made from it.
type Candidate struct {
	Namespace, Name, Identity string

	Client *kubernetes.Clientset
	Config leaderelection.LeaderElectionConfig
}

// Main is the whole program. What a version of client-go has beyond the others is added in prepare, before the election;
// its flags are defined before Main is called.
func Main(prepare func(context.Context, *Candidate) error) {
	klog.InitFlags(nil)
	c := &Candidate{}
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	lockType := flag.String("lock", "leases", "type of the lock, as resourcelock.New has it")
	flag.StringVar(&c.Namespace, "namespace", "default", "namespace of the lock")
	flag.StringVar(&c.Name, "name", "", "name of the lock")
	flag.StringVar(&c.Identity, "identity", "", "this candidate's identity")
	flag.DurationVar(&c.Config.LeaseDuration, "lease-duration", 15*time.Second, "LeaseDuration")
	flag.DurationVar(&c.Config.RenewDeadline, "renew-deadline", 10*time.Second, "RenewDeadline")
	flag.DurationVar(&c.Config.RetryPeriod, "retry-period", 2*time.Second, "RetryPeriod")
	flag.BoolVar(&c.Config.ReleaseOnCancel, "release-on-cancel", true, "ReleaseOnCancel")
	stopFirst := flag.Bool("stop-first", false, "never release before the command has ended")
	flag.Parse()
	if c.Name == "" || c.Identity == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatalf("kubeconfig: %v", err)
	}
	config.QPS, config.Burst = 20, 30         // kube-controller-manager's; the default of 5 would starve a multilock
	config.WarningHandler = rest.NoWarnings{} // "Endpoints is deprecated" is not a complaint about the lock
	c.Client = kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	work := &command.Command{Args: flag.Args(), Identity: c.Identity}
	events := newEvents(c.Client, c.Name)
	lock, err := resourcelock.NewFromKubeconfig(*lockType, c.Namespace, c.Name,
		resourcelock.ResourceLockConfig{Identity: c.Identity, EventRecorder: events}, config, c.Config.RenewDeadline)
	if err != nil {
		klog.Fatalf("lock: %v", err)
	}
	if *stopFirst {
		lock = &stopFirstLock{lock, work}
	}

	lost := false
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		if *stopFirst {
			work.Stop(syscall.SIGTERM)
		}
		cancel()
	}()

	c.Config.Lock = lock
	c.Config.Name = c.Name
	c.Config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			if work.Run() {
				cancel() // so does this candidate
			}
		},
		OnStoppedLeading: func() {
			lost = ctx.Err() == nil
			work.Stop(syscall.SIGKILL)
		},
		OnNewLeader: func(leader string) { klog.Infof("new leader: %s", leader) },
	}
	if prepare != nil {
		if err := prepare(ctx, c); err != nil {
			klog.Fatal(err)
		}
	}
	leaderelection.RunOrDie(ctx, c.Config)
	events.flush()
	klog.Flush()
	if lost {
		os.Exit(1)
	}
	os.Exit(work.Status())
}

// stopFirstLock kills the command before a release is sent.
type stopFirstLock struct {
	resourcelock.Interface
	work *command.Command
}

func (l *stopFirstLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		l.work.Stop(syscall.SIGKILL)
	}
	return l.Interface.Update(ctx, record)
}

// events records on the lock's object as kube-controller-manager does, and can wait until all of it is sent: client-go
// itself does not, and the last event of a process is often lost.
type events struct {
	record.EventRecorder
	recorded, sent atomic.Int64
}

func newEvents(client kubernetes.Interface, component string) *events {
	broadcaster := record.NewBroadcaster()
	e := &events{EventRecorder: broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: component})}
	broadcaster.StartRecordingToSink(&countingSink{&corev1.EventSinkImpl{Interface: client.CoreV1().Events("")}, &e.sent})
	return e
}

func (e *events) Eventf(object runtime.Object, eventType, reason, format string, args ...interface{}) {
	e.recorded.Add(1)
	e.EventRecorder.Eventf(object, eventType, reason, format, args...)
}

func (e *events) flush() {
	for end := time.Now().Add(eventTimeout); e.sent.Load() < e.recorded.Load() && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

type countingSink struct {
	record.EventSink
	sent *atomic.Int64
}

func (s *countingSink) Create(event *v1.Event) (*v1.Event, error) {
	defer s.sent.Add(1)
	return s.EventSink.Create(event)
}

func (s *countingSink) Patch(event *v1.Event, data []byte) (*v1.Event, error) {
	defer s.sent.Add(1)
	return s.EventSink.Patch(event, data)
}
