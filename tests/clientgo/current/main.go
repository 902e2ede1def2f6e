// Command current is a candidate on today's client-go: the Lease, with -coordinated by KEP-4355 as kube-controller-manager
// does it.
package main

import (
	"context"
	"flag"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"

	"kleader.test/clientgo/candidate"
)

func main() {
	coordinated := flag.Bool("coordinated", false, "let the control plane choose among the LeaseCandidates")
	binaryVersion := flag.String("binary-version", "1.36.0", "binary version, with -coordinated")
	emulationVersion := flag.String("emulation-version", "1.36.0", "emulation version, with -coordinated")
	candidate.Main(func(ctx context.Context, c *candidate.Candidate) error {
		if !*coordinated {
			return nil
		}
		leaseCandidate, _, err := leaderelection.NewCandidate(c.Client, c.Namespace, c.Identity, c.Name,
			*binaryVersion, *emulationVersion, coordinationv1.OldestEmulationVersion)
		if err != nil {
			return err
		}
		go leaseCandidate.Run(ctx)
		c.Config.Coordinated = true
		return nil
	})
}
