// Command legacy is a candidate on the last client-go that has every lock of old: endpoints, configmaps, and both multilocks.
package main

import "kleader.test/clientgo/candidate"

func main() {
	candidate.Main(nil)
}
