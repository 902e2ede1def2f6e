// Command command is what both sides of the benchmark run: `command LOG`. Its first act is to read CLOCK_BOOTTIME, its
// last but exiting is to read it again on TERM; it appends both to LOG, and needs less than 2 ms from exec to the first.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

const clockBoottime = 7

func now() int64 {
	var at syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func main() {
	started := now()
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM)
	log, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	who := os.Getenv("KLEADER_IDENTITY")
	if who == "" {
		who = "-"
	}
	fmt.Fprintf(log, "start %d %d %s\n", started, os.Getpid(), who)
	<-ends
	fmt.Fprintf(log, "end %d %d %s\n", now(), os.Getpid(), who)
	os.Exit(0)
}
